import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { mkdir, readdir, rename, utimes } from "node:fs/promises";
import { join } from "node:path";
import { describe, type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import type { Digest } from "@exclave/core";
import { unlessAbsent } from "@exclave/machine";
import { type ContentStore, writeBlobBytes } from "../../content/content-store.ts";
import { type Descriptor, MEDIA_TYPES } from "../../content/descriptor.ts";
import { collect, digestOf } from "../../content/digest.ts";
import { temporaryDirectory } from "../../testing/temporary-directory.ts";
import { createRegistryFiles, type RegistryFiles } from "../files/registry-files.ts";
import { openRegistry } from "../testing/open-registry.ts";
import { collectGarbage, GRACE_MS } from "./collect-garbage.ts";

async function world(t: TestContext) {
  const directory = await temporaryDirectory(t);
  const files = createRegistryFiles(directory);
  const sweep = () => collectGarbage({ directory, now: Date.now() });
  const age = () => makeOld(directory);
  return { directory, files, sweep, age };
}

/** As if all that is here had come two days ago. */
async function makeOld(directory: string): Promise<void> {
  const then = new Date(Date.now() - 2 * GRACE_MS);
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  for (const entry of entries.filter((each) => each.isFile())) {
    await utimes(join(entry.parentPath, entry.name), then, then);
  }
}

async function image(store: ContentStore, repository: string, tag?: string) {
  const config = await writeBlobBytes(store, repository, MEDIA_TYPES.empty, Buffer.from("{}"));
  const layer = await writeBlobBytes(store, repository, MEDIA_TYPES.layerTar, randomBytes(100));
  return { layer, digest: await put(store, repository, [config, layer], tag) };
}

async function put(
  store: ContentStore,
  repository: string,
  [config, ...layers]: readonly Descriptor[],
  tag?: string,
): Promise<Digest> {
  const bytes = Buffer.from(JSON.stringify({ schemaVersion: 2, config, layers }));
  return store.writeManifest(repository, bytes, MEDIA_TYPES.manifest, tag);
}

async function isWhole(files: RegistryFiles, repository: string, digest: Digest) {
  return digestOf(await collect(files.readBlob(repository, digest))) === digest;
}

describe("garbage collection", () => {
  test("keeps what manifests list, tagged or not, however old", async (t) => {
    const { files, sweep, age } = await world(t);
    const tagged = await image(files, "a", "v1");
    const untagged = await image(files, "a/b");
    await age();

    assert.deepEqual(await sweep(), { unlinked: 0, removed: 0, removedBytes: 0 });

    assert.ok(await isWhole(files, "a", tagged.layer.digest));
    assert.ok(await isWhole(files, "a/b", untagged.layer.digest));
    assert.equal((await files.readManifest("a/b", untagged.digest)).digest, untagged.digest);
  });

  test("removes what a deleted manifest listed, but not what another still lists", async (t) => {
    const { directory, files, sweep, age } = await world(t);
    const gone = await image(files, "a", "v1");
    const kept = await image(files, "a", "v2");
    await files.unlinkManifest("a", gone.digest);
    await age();

    const { unlinked, removed } = await sweep();

    assert.deepEqual([unlinked, removed], [1, 2]);
    assert.equal(await files.headBlob("a", gone.layer.digest), undefined);
    assert.ok(await isWhole(files, "a", kept.layer.digest));
    const left = [kept.digest, kept.layer.digest, digestOf("{}")].map((each) => each.slice(7));
    assert.deepEqual((await readdir(join(directory, "blobs/sha256"))).sort(), left.sort());
  });

  test("keeps content that another repository has", async (t) => {
    const { files, sweep, age } = await world(t);
    const { layer, digest } = await image(files, "a");
    await files.mountBlob("a", "b", layer.digest);
    await put(files, "b", [layer]);
    await files.unlinkManifest("a", digest);
    await age();

    await sweep();

    assert.equal(await files.headBlob("a", layer.digest), undefined);
    assert.ok(await isWhole(files, "b", layer.digest));
  });

  test("leaves alone what came within the grace period, with or without a manifest", async (t) => {
    const { files, sweep } = await world(t);
    const waiting = await writeBlobBytes(files, "a", "text/plain", randomBytes(10));
    const { layer, digest } = await image(files, "a");
    await files.unlinkManifest("a", digest);

    assert.deepEqual(await sweep(), { unlinked: 0, removed: 0, removedBytes: 0 });

    assert.ok(await isWhole(files, "a", waiting.digest));
    assert.ok(await isWhole(files, "a", layer.digest));
  });

  test("spares an old blob that somebody asked about: a push may be about to list it", async (t) => {
    const { files, sweep, age } = await world(t);
    const asked = await writeBlobBytes(files, "a", "text/plain", randomBytes(10));
    const forgotten = await writeBlobBytes(files, "a", "text/plain", randomBytes(10));
    await age();
    await files.headBlob("a", asked.digest);

    const { unlinked } = await sweep();

    assert.equal(unlinked, 1);
    assert.ok(await isWhole(files, "a", asked.digest));
    assert.equal(await files.headBlob("a", forgotten.digest), undefined);
  });

  test("never touches uploads under way", async (t) => {
    const registry = await openRegistry(t);
    const location = await registry.begin("a");
    await registry.send("PATCH", location, { body: "half" });
    await makeOld(registry.directory);

    await collectGarbage({ directory: registry.directory, now: Date.now() });

    const path = `${location}?digest=${digestOf("half and half")}`;
    const done = await registry.send("PUT", path, { body: " and half" });
    assert.equal(done.status, 201);
  });

  test("puts back what a killed collector had moved aside", async (t) => {
    const { directory, files, sweep } = await world(t);
    const { layer } = await image(files, "a", "v1");
    const name = layer.digest.replace(":", "-");
    const links = join(directory, "repositories/a/+blobs");
    const content = join(directory, "blobs/sha256");
    await rename(join(links, name), join(links, `:aside-${name}`));
    await rename(join(content, name.slice(7)), join(content, `:aside-${name.slice(7)}`));
    assert.equal(await files.headBlob("a", layer.digest), undefined);

    await sweep();

    assert.ok(await isWhole(files, "a", layer.digest));
  });

  test("leaves a repository alone while it has a manifest nobody understands", async (t) => {
    const { directory, files, sweep, age } = await world(t);
    const blob = await writeBlobBytes(files, "a", "text/plain", randomBytes(10));
    const odd = await writeBlobBytes(files, "b", "text/plain", Buffer.from("odd"));
    const manifests = join(directory, "repositories/a/+manifests");
    await mkdir(manifests, { recursive: true });
    const from = join(directory, "repositories/b/+blobs", odd.digest.replace(":", "-"));
    await rename(from, join(manifests, odd.digest.replace(":", "-")));
    await age();

    await sweep();

    assert.ok(await isWhole(files, "a", blob.digest));
  });

  test("a registry collects by itself", async (t) => {
    const registry = await openRegistry(t, { collect: { everyMs: 20 } });
    const digest = await registry.push("a", "unwanted");
    await makeOld(registry.directory);

    for (let look = 0; look < 250; look++) {
      if ((await readdir(join(registry.directory, "blobs/sha256"))).length === 0) break;
      await sleep(20);
    }

    assert.deepEqual(await readdir(join(registry.directory, "blobs/sha256")), []);
    assert.equal((await registry.send("HEAD", `/v2/a/blobs/${digest}`)).status, 404);
  });

  /** Runs `work` when the collector is at this step with the name of a digest. */
  function at(step: "found" | "aside", digest: Digest, work: () => Promise<unknown>) {
    return async (reached: string, name: string) => {
      if (reached === step && digest.replace(":", "-").endsWith(name)) await work();
    };
  }

  test("content that is pushed again at the last moment stays", async (t) => {
    for (const step of ["found", "aside"] as const) {
      const { directory, files, age } = await world(t);
      const bytes = randomBytes(10);
      const { digest } = await writeBlobBytes(files, "a", "text/plain", bytes);
      await files.unlinkBlob("a", digest);
      await age();

      const onStep = at(step, digest, () => writeBlobBytes(files, "b", "text/plain", bytes));
      await collectGarbage({ directory, now: Date.now(), onStep });

      assert.ok(await isWhole(files, "b", digest));
    }
  });

  test("a blob that is asked about at the last moment stays", async (t) => {
    const { directory, files, age } = await world(t);
    const { digest } = await writeBlobBytes(files, "a", "text/plain", randomBytes(10));
    await age();

    const onStep = at("found", digest, () => files.headBlob("a", digest));
    await collectGarbage({ directory, now: Date.now(), onStep });

    assert.ok(await isWhole(files, "a", digest));
  });

  test("a blob that a manifest lists at the last moment stays", async (t) => {
    const { directory, files, age } = await world(t);
    const blob = await writeBlobBytes(files, "a", "text/plain", randomBytes(10));
    await age();
    const bytes = Buffer.from(JSON.stringify({ schemaVersion: 2, config: blob, layers: [] }));
    const manifest = { bytes, mediaType: MEDIA_TYPES.manifest, digest: digestOf(bytes) };

    const onStep = at("aside", blob.digest, () =>
      files.putManifest("a", manifest, [], { mayLackBlobs: true }),
    );
    await collectGarbage({ directory, now: Date.now(), onStep });

    assert.ok(await isWhole(files, "a", blob.digest));
  });

  test("what comes too late for a blob is refused, and nothing is half there", async (t) => {
    const { directory, files, age } = await world(t);
    const blob = await writeBlobBytes(files, "a", "text/plain", randomBytes(10));
    await age();
    const refusals: unknown[] = [];
    const onStep = at("aside", blob.digest, async () => {
      await put(files, "a", [blob], "v1").catch((reason: unknown) => refusals.push(reason));
      assert.equal(await files.mountBlob("a", "b", blob.digest), false);
      assert.equal(await files.linkBlob("b", digestOf("never here")), false);
    });
    await collectGarbage({ directory, now: Date.now(), onStep });

    assert.match(String(refusals[0]), /which the manifest needs/);
    assert.deepEqual(await files.tags("a"), []);
    assert.equal(await files.headBlob("b", blob.digest), undefined);
  });

  test("racing pushes: all that was acknowledged is there, and nothing lists what is not", async (t) => {
    const { directory, files, sweep } = await world(t);
    const kept = new Map<Digest, { repository: string; blobs: Descriptor[] }>();
    const pushed = new AbortController();

    async function pushAll(repository: string): Promise<void> {
      for (let round = 0; round < 12; round++) {
        // Old garbage of the very content that is about to be pushed, mounted and listed.
        const bytes = [randomBytes(50), randomBytes(50), randomBytes(50)];
        const old = await Promise.all(
          bytes.map((each) => writeBlobBytes(files, "old", "text/plain", each)),
        );
        const [first, second, third] = old as [Descriptor, Descriptor, Descriptor];
        await files.unlinkBlob("old", first.digest);
        for (const { digest } of old) await makeOneOld(digest);

        await writeBlobBytes(files, repository, "text/plain", bytes[0] as Buffer);
        for (const blob of [second, third]) {
          const isMounted = await files.mountBlob("old", repository, blob.digest);
          const source = bytes[old.indexOf(blob)] as Buffer;
          if (!isMounted) await writeBlobBytes(files, repository, "text/plain", source);
        }
        try {
          const digest = await put(files, repository, [first, second, third]);
          kept.set(digest, { repository, blobs: [first, second, third] });
        } catch (reason) {
          // Refused is allowed; half there is not.
          assert.match(String(reason), /which the manifest needs/);
        }
      }
    }
    async function makeOneOld(digest: Digest): Promise<void> {
      const then = new Date(Date.now() - 2 * GRACE_MS);
      const link = join(directory, "repositories/old/+blobs", digest.replace(":", "-"));
      await unlessAbsent(utimes(link, then, then));
      await unlessAbsent(utimes(files.blobs.path(digest), then, then));
    }
    async function sweepAll(): Promise<void> {
      while (!pushed.signal.aborted) await sweep();
    }
    const pushing = Promise.all([pushAll("a"), pushAll("b")]).finally(() => pushed.abort());
    await Promise.all([pushing, sweepAll(), sweepAll()]);
    await sweep();

    assert.ok(kept.size > 0);
    for (const [digest, { repository, blobs }] of kept) {
      assert.equal((await files.readManifest(repository, digest)).digest, digest);
      for (const blob of blobs) assert.ok(await isWhole(files, repository, blob.digest));
    }
  });
});
