import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { test } from "node:test";
import { type ArtifactRef, digestOf, Failure, REPOSITORY_ANNOTATION } from "@exclave/core";
import {
  type ContentStore,
  copyArtifact,
  createMemoryStore,
  createSigner,
  MEDIA_TYPES,
  packIndex,
  signArtifact,
  writeBlobBytes,
} from "@exclave/oci";
import { createCheckReleased } from "./check-released.ts";
import { spkiOf } from "./testing/builders.ts";

const repository = "releases/crm";
const vendor = generateKeyPairSync("ec", { namedCurve: "P-256" });
const stranger = generateKeyPairSync("ec", { namedCurve: "P-256" });

/** An install's registry with one artifact, and a release that lists it. */
async function world() {
  const store = createMemoryStore();
  const api = await artifact(store, "apps/crm/api", "api");
  const index = await releaseOf(store, [api]);
  return { store, api, index };
}

async function artifact(store: ContentStore, home: string, text: string): Promise<ArtifactRef> {
  const config = await writeBlobBytes(store, home, MEDIA_TYPES.empty, Buffer.from("{}"));
  const layer = await writeBlobBytes(store, home, "text/plain", Buffer.from(text));
  const manifest = { schemaVersion: 2, mediaType: MEDIA_TYPES.manifest, config, layers: [layer] };
  const bytes = Buffer.from(JSON.stringify(manifest));
  return { repository: home, digest: await store.writeManifest(home, bytes, MEDIA_TYPES.manifest) };
}

async function releaseOf(
  store: ContentStore,
  entries: readonly ArtifactRef[],
): Promise<ArtifactRef> {
  const manifests = [];
  for (const entry of entries) {
    const { bytes, mediaType } = await store.readManifest(entry.repository, entry.digest);
    for (const text of ["{}", "api", "web"]) {
      await writeBlobBytes(store, repository, "text/plain", Buffer.from(text));
    }
    await store.writeManifest(repository, bytes, mediaType);
    const annotations = { [REPOSITORY_ANNOTATION]: entry.repository };
    manifests.push({ mediaType, digest: entry.digest, size: bytes.length, annotations });
  }
  const { digest } = await packIndex({ store, repository, manifests });
  return { repository, digest };
}

function checking(store: ContentStore, prefix = "") {
  return createCheckReleased({
    releaseKey: spkiOf(vendor.publicKey),
    share: { repository: prefix, mountFrom: [] },
    withRegistry: (_, read) => read(store),
  });
}

function sign(store: ContentStore, { digest }: ArtifactRef, { privateKey } = vendor) {
  return signArtifact({ store, repository, digest, signer: createSigner(privateKey) });
}

const refused = (text: RegExp) => (reason: unknown) =>
  reason instanceof Failure && reason.code === "signature" && text.test(reason.message);

test("what a signed release lists was released", async () => {
  const { store, api, index } = await world();
  await sign(store, index);

  await checking(store)([index], [api]);
});

test("on a shared registry the release is read under the prefix, and lists the vendor's names", async () => {
  const { store, api, index } = await world();
  await sign(store, index);
  const shared = createMemoryStore();
  const target = { repository: `globex/${repository}` };
  await copyArtifact({ from: store, to: shared, source: index, target, referrers: true });
  const prefixed = { ...api, repository: `globex/${api.repository}` };

  await checking(shared, "globex")([index], [api]);

  await assert.rejects(checking(shared)([index], [api]), Failure);
  await assert.rejects(
    checking(shared, "globex")([index], [prefixed]),
    refused(/no signed release lists globex/),
  );
});

test("what nobody signed, or somebody else did, was not", async () => {
  const { store, api, index } = await world();
  const released = checking(store);

  await assert.rejects(released([index], [api]), refused(/does not carry the vendor's signature/));
  await sign(store, index, stranger);
  await assert.rejects(released([index], [api]), refused(/a key that is not trusted here/));

  await sign(store, index);
  await released([index], [api]);
});

test("a release that was changed after it was signed is another one, which nobody signed", async () => {
  const { store, api, index } = await world();
  await sign(store, index);
  const web = await artifact(store, "apps/crm/web", "web");
  const tampered = await releaseOf(store, [api, web]);

  await assert.rejects(checking(store)([tampered], [web]), refused(/nobody has signed/));
});

test("what no release lists was not released, nor what is listed for another repository", async () => {
  const { store, api, index } = await world();
  await sign(store, index);
  const released = checking(store);
  const elsewhere = { ...api, repository: "exclave/plugins/command" };
  const unlisted = { ...api, digest: digestOf("something else") };

  for (const ref of [elsewhere, unlisted]) {
    await assert.rejects(released([index], [ref]), refused(/no signed release lists/));
  }
  await assert.rejects(released([], [api]), refused(/no signed release lists/));
});

test("a signature over something that is no release lists nothing", async () => {
  const { store, api } = await world();
  const { digest } = api;
  await sign(store, { repository, digest });

  await assert.rejects(checking(store)([{ repository, digest }], [api]), refused(/is no release/));
});

test("a registry that cannot be reached is not a verdict, and is asked again", async () => {
  const { store, api, index } = await world();
  await sign(store, index);
  let isAway = true;
  const flaky: ContentStore = {
    ...store,
    referrers: (...args) =>
      isAway
        ? Promise.reject(new Failure("unavailable", "the registry is away"))
        : store.referrers(...args),
  };
  const released = checking(flaky);

  await assert.rejects(released([index], [api]), { code: "unavailable" });
  isAway = false;
  await released([index], [api]);
});
