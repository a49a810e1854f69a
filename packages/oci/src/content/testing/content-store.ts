// What every content store promises, as tests. A store is done when it passes this suite.

import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { describe, type TestContext, test } from "node:test";
import { type Digest, Failure } from "@exclave/core";
import { type ContentStore, writeBlobBytes } from "../content-store.ts";
import { type Descriptor, MEDIA_TYPES } from "../descriptor.ts";
import { bytesOf, collect, digestOf } from "../digest.ts";

export function describeContentStore(
  name: string,
  create: (t: TestContext) => Promise<ContentStore>,
): void {
  describe(`${name} keeps the content store contract`, () => {
    test("gives back the bytes of a blob, whole and from an offset", async (t) => {
      const store = await create(t);
      const bytes = randomBytes(700_000);
      const { digest } = await writeBlobBytes(store, "a/b", "text/plain", bytes);

      const whole = await collect(store.readBlob("a/b", digest));
      const rest = await collect(store.readBlob("a/b", digest, { from: 699_990 }));

      assert.equal(digestOf(whole), digest);
      assert.deepEqual(Buffer.from(rest), bytes.subarray(699_990));
      assert.equal(await store.headBlob("a/b", digest), bytes.length);
    });

    test("keeps an empty blob", async (t) => {
      const store = await create(t);

      const { digest } = await writeBlobBytes(store, "a", "text/plain", new Uint8Array());

      assert.equal(await store.headBlob("a", digest), 0);
      assert.equal((await collect(store.readBlob("a", digest))).length, 0);
    });

    test("takes no blob whose bytes or size are not what was said", async (t) => {
      const store = await create(t);
      const right = Buffer.from("the right bytes");
      const digest = digestOf(right);
      const cases = [
        { size: right.length, bytes: Buffer.from("the wrong bytes") },
        { size: right.length, bytes: right.subarray(1) },
        { size: right.length + 1, bytes: right },
        { size: right.length - 1, bytes: right },
      ];

      for (const { size, bytes } of cases) {
        await assert.rejects(
          store.writeBlob("a", { digest, size }, () => bytesOf(bytes)),
          Failure,
        );
        assert.equal(await store.headBlob("a", digest), undefined);
      }
    });

    test("leaves nothing behind when the source breaks, and says why", async (t) => {
      const store = await create(t);
      const bytes = randomBytes(100_000);
      const digest = digestOf(bytes);
      async function* breaking() {
        yield bytes.subarray(0, 50_000);
        throw new Error("the source broke");
      }

      await assert.rejects(
        store.writeBlob("a", { digest, size: bytes.length }, breaking()),
        /the source broke/,
      );

      assert.equal(await store.headBlob("a", digest), undefined);
    });

    test("says not_found for what is not there, and undefined when only asked about it", async (t) => {
      const store = await create(t);
      const digest = digestOf("nowhere");

      await assert.rejects(collect(store.readBlob("a", digest)), isNotFound);
      await assert.rejects(store.readManifest("a", digest), isNotFound);
      await assert.rejects(store.readManifest("a", "latest"), isNotFound);
      assert.equal(await store.headBlob("a", digest), undefined);
      assert.equal(await store.headManifest("a", digest), undefined);
      assert.equal(await store.headManifest("a", "latest"), undefined);
      assert.deepEqual(await store.tags("a"), []);
      assert.deepEqual(await store.referrers("a", digest), []);
      assert.equal(await store.mountBlob("a", "b", digest), false);
    });

    test("gives a manifest back byte by byte, by tag and by digest", async (t) => {
      const store = await create(t);
      // White space and an unknown field must survive: the digest is over the bytes.
      const bytes = await manifest(store, "a", { unknown: { kept: true } });

      const digest = await store.writeManifest("a", bytes, MEDIA_TYPES.manifest, "v1");

      for (const reference of ["v1", digest]) {
        const found = await store.readManifest("a", reference);
        assert.deepEqual(Buffer.from(found.bytes), Buffer.from(bytes));
        assert.equal(found.mediaType, MEDIA_TYPES.manifest);
        assert.equal(found.digest, digest);
        assert.deepEqual(await store.headManifest("a", reference), {
          digest,
          mediaType: MEDIA_TYPES.manifest,
          size: bytes.length,
        });
      }
    });

    test("keeps a manifest under the digest it is known by elsewhere, whatever the algorithm", async (t) => {
      const store = await create(t);
      const bytes = await manifest(store, "a", {});
      const digest = `sha512:${createHash("sha512").update(bytes).digest("hex")}` as Digest;

      const written = await store.writeManifest("a", bytes, MEDIA_TYPES.manifest, "v1", { digest });

      assert.equal(written, digest);
      for (const reference of ["v1", digest]) {
        assert.equal((await store.readManifest("a", reference)).digest, digest);
        assert.equal((await store.headManifest("a", reference))?.digest, digest);
      }
    });

    test("takes no manifest whose bytes are not what was said", async (t) => {
      const store = await create(t);
      const bytes = await manifest(store, "a", {});
      const digest = digestOf("something else");

      await assert.rejects(
        store.writeManifest("a", bytes, MEDIA_TYPES.manifest, "v1", { digest }),
        (reason) => reason instanceof Failure && reason.code === "invalid",
      );

      assert.deepEqual(await store.tags("a"), []);
      assert.equal(await store.headManifest("a", digestOf(bytes)), undefined);
    });

    test("moves a tag and keeps what it pointed at", async (t) => {
      const store = await create(t);
      const first = await manifest(store, "a", { annotations: { n: "1" } });
      const second = await manifest(store, "a", { annotations: { n: "2" } });

      const old = await store.writeManifest("a", first, MEDIA_TYPES.manifest, "latest");
      const now = await store.writeManifest("a", second, MEDIA_TYPES.manifest, "latest");

      assert.equal((await store.readManifest("a", "latest")).digest, now);
      assert.equal((await store.readManifest("a", old)).digest, old);
    });

    test("lists tags in order and per repository", async (t) => {
      const store = await create(t);
      for (const tag of ["b", "a", "C"]) {
        const bytes = await manifest(store, "a", {});
        await store.writeManifest("a", bytes, MEDIA_TYPES.manifest, tag);
      }
      const other = await manifest(store, "a/other", {});
      await store.writeManifest("a/other", other, MEDIA_TYPES.manifest, "z");

      assert.deepEqual(await store.tags("a"), ["C", "a", "b"]);
      assert.deepEqual(await store.tags("a/other"), ["z"]);
    });

    test("refuses a manifest while a blob it needs is missing", async (t) => {
      const store = await create(t);
      const bytes = await manifest(store, "a", {
        layers: [{ mediaType: MEDIA_TYPES.layerTar, digest: digestOf("missing"), size: 7 }],
      });

      await assert.rejects(store.writeManifest("a", bytes, MEDIA_TYPES.manifest), isNotFound);

      assert.equal(await store.headManifest("a", digestOf(bytes)), undefined);
    });

    test("keeps an index beside the manifests it lists", async (t) => {
      const store = await create(t);
      const child = await manifest(store, "a", {});
      const childDigest = await store.writeManifest("a", child, MEDIA_TYPES.manifest);
      const entry = { mediaType: MEDIA_TYPES.manifest, digest: childDigest, size: child.length };
      const index = json({ schemaVersion: 2, mediaType: MEDIA_TYPES.index, manifests: [entry] });

      const digest = await store.writeManifest("a", index, MEDIA_TYPES.index, "all");

      assert.equal((await store.readManifest("a", "all")).mediaType, MEDIA_TYPES.index);
      assert.equal((await store.readManifest("a", digest)).digest, digest);
      assert.equal((await store.readManifest("a", childDigest)).mediaType, MEDIA_TYPES.manifest);
    });

    test("makes a blob of one repository one of another", async (t) => {
      const store = await create(t);
      const { digest } = await writeBlobBytes(store, "a", "text/plain", Buffer.from("shared"));

      assert.equal(await store.mountBlob("a", "b/c", digest), true);

      assert.equal(await store.headBlob("b/c", digest), 6);
    });

    test("finds what refers to a manifest, by type, also when that one is not here", async (t) => {
      const store = await create(t);
      const subject = descriptor("somewhere else");
      const signature = await manifest(store, "a", {
        subject,
        artifactType: "application/signature",
        annotations: { by: "me" },
      });
      const bill = await manifest(store, "a", { subject, artifactType: "application/sbom" });

      const signed = await store.writeManifest("a", signature, MEDIA_TYPES.manifest);
      await store.writeManifest("a", bill, MEDIA_TYPES.manifest);

      const all = await store.referrers("a", subject.digest);
      const options = { artifactType: "application/signature" };
      const [found, ...others] = await store.referrers("a", subject.digest, options);
      assert.equal(all.length, 2);
      assert.deepEqual(others, []);
      assert.equal(found?.digest, signed);
      assert.equal(found?.artifactType, "application/signature");
      assert.deepEqual(found?.annotations, { by: "me" });
      assert.equal(found?.size, signature.length);
    });

    test("refuses names that lead out of their place", async (t) => {
      const store = await create(t);
      const bytes = await manifest(store, "a", {});

      for (const name of ["../a", "a/../b", "/a", "A", "a//b", ""]) {
        await assert.rejects(writeBlobBytes(store, name, "text/plain", Buffer.from("x")), Failure);
      }
      await assert.rejects(
        store.writeManifest("a", bytes, MEDIA_TYPES.manifest, "../tag"),
        (reason) => reason instanceof Failure && reason.code === "invalid",
      );
    });

    test("takes the same content from several writers at once", async (t) => {
      const store = await create(t);
      const bytes = randomBytes(200_000);

      const written = await Promise.all(
        Array.from({ length: 4 }, async (_, n) => {
          await writeBlobBytes(store, "a", "text/plain", bytes);
          const document = await manifest(store, "a", { annotations: { n: String(n) } });
          return store.writeManifest("a", document, MEDIA_TYPES.manifest, `t${n}`);
        }),
      );

      assert.deepEqual(await store.tags("a"), ["t0", "t1", "t2", "t3"]);
      assert.equal((await store.readManifest("a", "t2")).digest, written[2]);
      assert.equal(digestOf(await collect(store.readBlob("a", digestOf(bytes)))), digestOf(bytes));
    });
  });
}

function isNotFound(reason: unknown): boolean {
  return reason instanceof Failure && reason.code === "not_found";
}

async function manifest(store: ContentStore, repository: string, fields: object) {
  const config = await writeBlobBytes(store, repository, MEDIA_TYPES.empty, Buffer.from("{}"));
  return json({
    schemaVersion: 2,
    mediaType: MEDIA_TYPES.manifest,
    artifactType: "application/test",
    config,
    layers: [],
    ...fields,
  });
}

function json(value: unknown): Uint8Array {
  return Buffer.from(`${JSON.stringify(value, null, 3)}\n`);
}

function descriptor(text: string): Descriptor & { digest: Digest } {
  return { mediaType: MEDIA_TYPES.manifest, digest: digestOf(text), size: text.length };
}
