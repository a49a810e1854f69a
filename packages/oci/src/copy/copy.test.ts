import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { describe, test } from "node:test";
import { type Digest, Failure } from "@exclave/core";
import { type ContentStore, writeBlobBytes } from "../content/content-store.ts";
import { MEDIA_TYPES } from "../content/descriptor.ts";
import { createMemoryStore } from "../content/memory-store.ts";
import { type CopyProgress, copyArtifact } from "./copy.ts";

/** An index of two images that share a layer, with a signature on the index. */
async function release(store: ContentStore, repository: string) {
  const shared = await blob(store, repository, 5_000);
  const images = [];
  for (const size of [1_000, 9_000]) {
    const layers = [shared, await blob(store, repository, size)];
    images.push(await put(store, repository, { layers }));
  }
  const index = await put(store, repository, { manifests: images });
  const layers = [await blob(store, repository, 100)];
  const signature = await put(store, repository, { layers, subject: index });
  return { index, images, signature, shared, bytes: 5_000 + 1_000 + 9_000 + 2 };
}

async function blob(store: ContentStore, repository: string, size: number) {
  return writeBlobBytes(store, repository, MEDIA_TYPES.layerTar, randomBytes(size));
}

async function put(store: ContentStore, repository: string, fields: object) {
  const isIndex = "manifests" in fields;
  const mediaType = isIndex ? MEDIA_TYPES.index : MEDIA_TYPES.manifest;
  const config = await writeBlobBytes(store, repository, MEDIA_TYPES.empty, Buffer.from("{}"));
  const document = { schemaVersion: 2, mediaType, ...(isIndex ? {} : { config }), ...fields };
  const bytes = Buffer.from(JSON.stringify(document));
  const digest = await store.writeManifest(repository, bytes, mediaType);
  return { mediaType, digest, size: bytes.length };
}

/** Notes what is asked of a store, in order. */
function watched(store: ContentStore): { store: ContentStore; calls: string[] } {
  const calls: string[] = [];
  const note =
    (name: keyof ContentStore) =>
    (...args: unknown[]) => {
      calls.push(`${name} ${typeof args[1] === "string" ? args[1] : ""}`);
      return (store[name] as (...args: unknown[]) => unknown)(...args);
    };
  const names = Object.keys(store) as (keyof ContentStore)[];
  return {
    store: Object.fromEntries(names.map((name) => [name, note(name)])) as unknown as ContentStore,
    calls,
  };
}

describe("copyArtifact", () => {
  test("brings an index with everything in it, each blob once", async () => {
    const from = createMemoryStore();
    const to = createMemoryStore();
    const { index, images, bytes } = await release(from, "apps/crm");
    const progress: CopyProgress[] = [];

    const result = await copyArtifact({
      from,
      to,
      source: { repository: "apps/crm", digest: index.digest },
      target: { repository: "copy", tag: "v1" },
      onProgress: (step) => progress.push(step),
    });

    assert.deepEqual(result, {
      digest: index.digest,
      copiedBytes: bytes,
      skippedBytes: 0,
      mountedBytes: 0,
      requests: 0,
    });
    assert.equal((await to.readManifest("copy", "v1")).digest, index.digest);
    for (const { digest } of images) assert.ok(await to.headManifest("copy", digest));
    const { bytesPerSecond, ...last } = progress.at(-1) as CopyProgress;
    assert.deepEqual(last, { copiedBytes: bytes, skippedBytes: 0, totalBytes: bytes });
    assert.ok(bytesPerSecond > 0);
  });

  test("asks once and moves nothing when the artifact is there", async () => {
    const from = createMemoryStore();
    const to = createMemoryStore();
    const { index } = await release(from, "a");
    const copy = { source: { repository: "a", digest: index.digest }, target: { repository: "a" } };
    await copyArtifact({ from, to, ...copy });
    const source = watched(from);
    const destination = watched(to);

    const again = await copyArtifact({ from: source.store, to: destination.store, ...copy });

    assert.equal(again.copiedBytes + again.skippedBytes, 0);
    assert.deepEqual(source.calls, []);
    assert.deepEqual(destination.calls, [`headManifest ${index.digest}`]);
  });

  test("moves a tag to what is already there", async () => {
    const from = createMemoryStore();
    const to = createMemoryStore();
    const { index } = await release(from, "a");
    const source = { repository: "a", digest: index.digest };
    await copyArtifact({ from, to, source, target: { repository: "a" } });

    await copyArtifact({ from, to, source, target: { repository: "a", tag: "stable" } });

    assert.deepEqual(await to.tags("a"), ["stable"]);
  });

  test("takes blobs from other repositories of the destination, and counts them as skipped", async () => {
    const from = createMemoryStore();
    const to = createMemoryStore();
    const { images, shared } = await release(from, "a");
    const [first, second] = images;
    assert.ok(first && second);
    const copy = (digest: Digest, repository: string) =>
      copyArtifact({
        from,
        to,
        source: { repository: "a", digest },
        target: { repository },
        mountFrom: ["one"],
      });
    await copy(first.digest, "one");

    const result = await copy(second.digest, "two");

    assert.deepEqual(result, {
      digest: second.digest,
      copiedBytes: 9_000,
      skippedBytes: shared.size + 2,
      mountedBytes: shared.size + 2,
      requests: 0,
    });
  });

  test("is done after one look when the tag is right", async () => {
    const from = createMemoryStore();
    const { index } = await release(from, "a");
    const { store: to, calls } = watched(createMemoryStore());
    const copy = {
      source: { repository: "a", digest: index.digest },
      target: { repository: "a", tag: "v1" },
    };
    await copyArtifact({ from, to, ...copy });
    calls.length = 0;

    await copyArtifact({ from, to, ...copy });

    assert.deepEqual(calls, ["headManifest v1"]);
  });

  test("brings one platform of an index, which stays as it is, and the others later", async () => {
    const from = createMemoryStore();
    const to = createMemoryStore();
    const images = [];
    for (const architecture of ["amd64", "arm64"]) {
      const image = await put(from, "a", { layers: [await blob(from, "a", 1_000)] });
      images.push({ ...image, platform: { os: "linux", architecture } });
    }
    const [amd, arm] = images as [(typeof images)[0], (typeof images)[0]];
    const attestation = {
      ...(await put(from, "a", { layers: [await blob(from, "a", 10)] })),
      platform: { os: "unknown", architecture: "unknown" },
      annotations: { "vnd.docker.reference.digest": arm.digest },
    };
    const index = await put(from, "a", { manifests: [...images, attestation] });
    const copy = {
      from,
      to,
      source: { repository: "a", digest: index.digest },
      target: { repository: "a", tag: "v1" },
    };

    const first = await copyArtifact({ ...copy, platforms: ["linux/amd64"] });

    assert.equal(first.copiedBytes, 1_002);
    assert.equal((await to.readManifest("a", "v1")).digest, index.digest);
    assert.ok(await to.headManifest("a", amd.digest));
    assert.equal(await to.headManifest("a", arm.digest), undefined);
    assert.equal(await to.headManifest("a", attestation.digest), undefined);

    const second = await copyArtifact({ ...copy, platforms: ["all"] });

    assert.equal(second.copiedBytes, 1_010);
    assert.ok(await to.headManifest("a", arm.digest));
    assert.ok(await to.headManifest("a", attestation.digest));
  });

  test("does not look at the blobs of children that are there", async () => {
    const from = createMemoryStore();
    const { store: to, calls } = watched(createMemoryStore());
    const { images, index } = await release(from, "a");
    for (const { digest } of images) {
      const source = { repository: "a", digest };
      await copyArtifact({ from, to, source, target: { repository: "a" } });
    }
    calls.length = 0;

    const source = { repository: "a", digest: index.digest };
    await copyArtifact({ from, to, source, target: { repository: "a" } });

    assert.deepEqual(
      calls.filter((call) => call.includes("Blob")),
      [],
    );
  });

  test("writes children before their index, and the index last", async () => {
    const from = createMemoryStore();
    const { store: to, calls } = watched(createMemoryStore());
    const { index, images } = await release(from, "a");
    const order: Digest[] = [];
    const recording: ContentStore = {
      ...to,
      async writeManifest(repository, bytes, mediaType, tag) {
        const digest = await to.writeManifest(repository, bytes, mediaType, tag);
        order.push(digest);
        return digest;
      },
    };

    await copyArtifact({
      from,
      to: recording,
      source: { repository: "a", digest: index.digest },
      target: { repository: "a", tag: "v1" },
    });

    assert.deepEqual(new Set(order.slice(0, 2)), new Set(images.map(({ digest }) => digest)));
    assert.equal(order[2], index.digest);
    assert.equal(order.length, 3);
    assert.ok(calls.findLastIndex((call) => call.startsWith("writeBlob")) < calls.length - 3);
  });

  test("brings signatures along when asked", async () => {
    const from = createMemoryStore();
    const to = createMemoryStore();
    const { index, signature } = await release(from, "a");
    const copy = { from, to, source: { repository: "a", digest: index.digest } };
    await copyArtifact({ ...copy, target: { repository: "plain" } });

    await copyArtifact({ ...copy, target: { repository: "plain" }, referrers: true });

    await copyArtifact({ ...copy, target: { repository: "fresh" }, referrers: true });

    assert.equal((await to.referrers("fresh", index.digest))[0]?.digest, signature.digest);
    const found = await to.referrers("plain", index.digest);
    assert.deepEqual(
      found.map(({ digest }) => digest),
      [signature.digest],
    );
  });

  test("asks twice when the artifact is there and signatures are wanted", async () => {
    const from = createMemoryStore();
    const { images } = await release(from, "a");
    const { digest } = images[0] as { digest: Digest };
    const copy = { source: { repository: "a", digest }, target: { repository: "a" } };
    const { store: to, calls } = watched(createMemoryStore());
    await copyArtifact({ from, to, ...copy, referrers: true });
    calls.length = 0;
    const source = watched(from);

    await copyArtifact({ from: source.store, to, ...copy, referrers: true });

    assert.deepEqual(
      [...calls, ...source.calls],
      [`headManifest ${digest}`, `referrers ${digest}`],
    );
  });

  test("leaves no manifest behind when a blob does not match its digest", async () => {
    const from = createMemoryStore();
    const to = createMemoryStore();
    const { index, shared } = await release(from, "a");
    const lying: ContentStore = {
      ...from,
      async *readBlob(repository, digest, options) {
        if (digest === shared.digest) yield randomBytes(shared.size);
        else yield* from.readBlob(repository, digest, options);
      },
    };

    const copying = copyArtifact({
      from: lying,
      to,
      source: { repository: "a", digest: index.digest },
      target: { repository: "a", tag: "v1" },
    });

    await assert.rejects(
      copying,
      (reason) => reason instanceof Failure && reason.code === "invalid",
    );
    assert.equal(await to.headManifest("a", index.digest), undefined);
    assert.deepEqual(await to.tags("a"), []);
    assert.equal(await to.headBlob("a", shared.digest), undefined);
  });

  test("stops when told to", async () => {
    const from = createMemoryStore();
    const { index } = await release(from, "a");
    const stopping = new AbortController();
    const slow: ContentStore = {
      ...from,
      async readManifest(repository, reference, options) {
        stopping.abort(new Error("enough"));
        options?.signal?.throwIfAborted();
        return from.readManifest(repository, reference);
      },
    };

    const copying = copyArtifact({
      from: slow,
      to: createMemoryStore(),
      source: { repository: "a", digest: index.digest },
      target: { repository: "a" },
      signal: stopping.signal,
    });

    await assert.rejects(copying, /enough/);
  });
});
