// Distribution specification 1.1, "Content discovery": tags and referrers.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { type Descriptor, MEDIA_TYPES } from "../../content/descriptor.ts";
import { digestOf } from "../../content/digest.ts";
import {
  errorCode,
  jsonOf,
  nextOf,
  type OpenRegistry,
  openRegistry,
} from "../testing/open-registry.ts";

const SUBJECT = { mediaType: MEDIA_TYPES.manifest, digest: digestOf("subject"), size: 7 };
const REFERRERS = `/v2/a/referrers/${SUBJECT.digest}`;

async function tagsOf({ send }: OpenRegistry, path: string) {
  const response = await send("GET", path);
  return { ...(await jsonOf<{ tags: string[] }>(response)), next: nextOf(response) };
}

async function referrersOf({ send }: OpenRegistry, path: string) {
  const response = await send("GET", path);
  assert.equal(response.status, 200);
  assert.equal(response.headers.get("content-type"), MEDIA_TYPES.index);
  const { manifests } = await jsonOf<{ manifests: Descriptor[] }>(response);
  return { manifests, next: nextOf(response), headers: response.headers };
}

describe("listing tags", () => {
  test("in lexical order, whole or page by page", async (t) => {
    const registry = await openRegistry(t);
    for (const tag of ["c", "a", "D", "b"]) await registry.putManifest("x/y", tag);
    const path = "/v2/x/y/tags/list";

    const first = await tagsOf(registry, `${path}?n=3`);
    const second = await tagsOf(registry, first.next ?? "");

    assert.deepEqual(await tagsOf(registry, path), {
      name: "x/y",
      tags: ["D", "a", "b", "c"],
      next: undefined,
    });
    assert.deepEqual(first.tags, ["D", "a", "b"]);
    assert.deepEqual([second.tags, second.next], [["c"], undefined]);
    assert.deepEqual((await tagsOf(registry, `${path}?last=a`)).tags, ["b", "c"]);
    assert.deepEqual((await tagsOf(registry, `${path}?n=1&last=a`)).tags, ["b"]);
    assert.deepEqual((await tagsOf(registry, `${path}?n=4`)).next, undefined);
  });

  test("none of them when none are asked for", async (t) => {
    const registry = await openRegistry(t);
    await registry.putManifest("a", "v1");

    const { tags, next } = await tagsOf(registry, "/v2/a/tags/list?n=0");

    assert.deepEqual([tags, next], [[], undefined]);
  });

  test("of a repository that is not there is 404, by nonsense 400", async (t) => {
    const { send, putManifest } = await openRegistry(t);
    await putManifest("a", "v1");

    assert.equal(await errorCode(await send("GET", "/v2/nowhere/tags/list")), "NAME_UNKNOWN");
    for (const n of ["x", "-1", "1.5"]) {
      assert.equal((await send("GET", `/v2/a/tags/list?n=${n}`)).status, 400);
    }
  });
});

describe("listing referrers", () => {
  test("an empty index for what nothing refers to, here or not", async (t) => {
    const registry = await openRegistry(t);

    const { manifests } = await referrersOf(registry, REFERRERS);

    assert.deepEqual(manifests, []);
  });

  test("each with its type, size and annotations; by its configuration's type when it has none", async (t) => {
    const registry = await openRegistry(t);
    const signature = await registry.putManifest("a", "signature", {
      subject: SUBJECT,
      artifactType: "application/signature",
      annotations: { by: "me" },
    });
    const plain = await registry.putManifest("a", "plain", { subject: SUBJECT });
    const index = await registry.putManifest("a", "index", {
      subject: SUBJECT,
      artifactType: "application/list",
      manifests: [],
    });

    const { manifests } = await referrersOf(registry, REFERRERS);

    const found = new Map(manifests.map((entry) => [entry.digest, entry]));
    assert.equal(found.size, 3);
    assert.deepEqual(found.get(signature.digest), {
      mediaType: MEDIA_TYPES.manifest,
      digest: signature.digest,
      size: signature.body.length,
      artifactType: "application/signature",
      annotations: { by: "me" },
    });
    assert.equal(found.get(plain.digest)?.artifactType, MEDIA_TYPES.empty);
    assert.equal(found.get(index.digest)?.artifactType, "application/list");
    assert.equal(found.get(index.digest)?.mediaType, MEDIA_TYPES.index);
  });

  test("filtered by type, and saying so", async (t) => {
    const registry = await openRegistry(t);
    const wanted = { subject: SUBJECT, artifactType: "application/a+b" };
    const { digest } = await registry.putManifest("a", "one", wanted);
    await registry.putManifest("a", "two", { subject: SUBJECT, artifactType: "application/c" });

    const path = `${REFERRERS}?artifactType=${encodeURIComponent("application/a+b")}`;
    const { manifests, headers } = await referrersOf(registry, path);

    assert.deepEqual(
      manifests.map((entry) => entry.digest),
      [digest],
    );
    assert.equal(headers.get("oci-filters-applied"), "artifactType");
    const all = await referrersOf(registry, REFERRERS);
    assert.equal(all.headers.get("oci-filters-applied"), null);
  });

  test("page by page, keeping the filter", async (t) => {
    const registry = await openRegistry(t);
    for (const n of ["1", "2", "3"]) {
      const fields = { subject: SUBJECT, artifactType: "application/a", annotations: { n } };
      await registry.putManifest("a", `t${n}`, fields);
    }
    await registry.putManifest("a", "other", { subject: SUBJECT, artifactType: "application/b" });

    const first = await referrersOf(registry, `${REFERRERS}?artifactType=application/a&n=2`);
    const second = await referrersOf(registry, first.next ?? "");

    assert.equal(first.manifests.length, 2);
    assert.equal(second.manifests.length, 1);
    assert.equal(second.next, undefined);
    const seen = [...first.manifests, ...second.manifests].map((entry) => entry.annotations?.["n"]);
    assert.deepEqual(seen.sort(), ["1", "2", "3"]);
  });

  test("never more at once than a client takes for an index", async (t) => {
    const registry = await openRegistry(t);
    for (const n of ["1", "2", "3"]) {
      const annotations = { n, long: "x".repeat(1_500_000) };
      await registry.putManifest("a", `t${n}`, { subject: SUBJECT, annotations });
    }

    const seen: unknown[] = [];
    for (let path: string | undefined = REFERRERS; path; ) {
      const { manifests, next } = await referrersOf(registry, path);
      assert.ok(JSON.stringify(manifests).length < 4 * 1024 * 1024);
      seen.push(...manifests.map((entry) => entry.annotations?.["n"]));
      path = next;
    }

    assert.deepEqual(seen.sort(), ["1", "2", "3"]);
  });

  test("of their own repository", async (t) => {
    const registry = await openRegistry(t);
    await registry.putManifest("b", "t", { subject: SUBJECT });

    assert.deepEqual((await referrersOf(registry, REFERRERS)).manifests, []);
  });
});
