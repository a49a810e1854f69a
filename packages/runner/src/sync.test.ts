import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { Digest, type JobDocument } from "@exclave/core";
import {
  blobsOf,
  createSigner,
  MEDIA_TYPES,
  parseManifest,
  readBlobBytes,
  signArtifact,
  verifyArtifactSignature,
  writeBlobBytes,
} from "@exclave/oci";
import { likeliestFirst } from "./sync.ts";
import { createJobFixture, type JobFixture, startRegistry } from "./testing/job-fixture.ts";

/** An artifact of one small layer, in the registry the jobs read from. */
async function material(fixture: JobFixture, name: string, text: string) {
  const repository = `apps/shop/${name}`;
  const bytes = (value: string) => new TextEncoder().encode(value);
  const write = (mediaType: string, value: string) =>
    writeBlobBytes(fixture.registry, repository, mediaType, bytes(value));
  const config = await write(MEDIA_TYPES.empty, "{}");
  const layer = await write("text/plain", text);
  const manifest = {
    schemaVersion: 2,
    mediaType: MEDIA_TYPES.manifest,
    artifactType: "text/plain",
    config,
    layers: [layer],
  };
  const digest = await fixture.registry.writeManifest(
    repository,
    bytes(JSON.stringify(manifest)),
    MEDIA_TYPES.manifest,
  );
  return { name, repository, digest, layer };
}

async function twoRegistries(t: TestContext) {
  const fixture = await createJobFixture(t);
  const install = await startRegistry(t, join(fixture.directory, "install-registry"));
  const web = await material(fixture, "web", "the web page");
  const database = await material(fixture, "database", "the database");
  const materials: JobDocument["materials"] = [web, database].map(
    ({ name, repository, digest }) => ({ name, repository, digest }),
  );
  return { fixture, install, web, database, materials };
}

const keys = generateKeyPairSync("ec", { namedCurve: "P-256" });

/** The release of these materials, in the registry the jobs read from, with a way to sign it. */
async function unsignedRelease(fixture: JobFixture, materials: JobDocument["materials"]) {
  const repository = "releases/shop";
  const pushTo = { url: fixture.registryUrl, repository };
  const { lines } = await fixture.run({ operation: "assemble", materials, pushTo });
  const written = lines.find((line) => line.type === "artifact");
  const digest = Digest.parse(written?.digest);
  const signer = createSigner(keys.privateKey);
  return {
    release: { name: "release", repository, digest },
    digest,
    publicKeys: [keys.publicKey],
    releaseKey: keys.publicKey.export({ format: "der", type: "spki" }).toString("base64"),
    sign: () => signArtifact({ store: fixture.registry, repository, digest, signer }),
  };
}

async function signedRelease(fixture: JobFixture, materials: JobDocument["materials"]) {
  const release = await unsignedRelease(fixture, materials);
  return { ...release, signature: await release.sign() };
}

const toText = (bytes: Uint8Array) => Buffer.from(bytes).toString("base64");

test("a sync brings every material by digest, and says what it cost", async (t) => {
  const { fixture, install, web, materials } = await twoRegistries(t);
  const pushTo = { url: install.url, repository: "" };

  const first = await fixture.run({ operation: "sync", materials, pushTo });
  const second = await fixture.run({ operation: "sync", materials, pushTo });

  assert.deepEqual(first.result, { type: "result", ok: true });
  for (const { repository, digest } of materials) {
    assert.equal((await install.registry.readManifest(repository, digest)).digest, digest);
  }
  assert.equal(await install.registry.headBlob(web.repository, web.layer.digest), web.layer.size);
  const copied = ({ lines }: typeof first) =>
    lines.flatMap((line) =>
      line.type === "artifact" ? [[line.name, (line.copiedBytes ?? 0) > 0]] : [],
    );
  assert.deepEqual(copied(first), [
    ["web", true],
    ["database", true],
  ]);
  assert.deepEqual(copied(second), [
    ["web", false],
    ["database", false],
  ]);
});

test("a sync of what is there already needs no vendor's registry", async (t) => {
  const { fixture, install, materials } = await twoRegistries(t);
  const pushTo = { url: install.url, repository: "" };
  const { release, releaseKey, digest } = await signedRelease(fixture, materials);
  const job: Partial<JobDocument> = {
    operation: "sync",
    materials: [...materials, release],
    parameters: { releases: [digest], releaseKeys: [releaseKey] },
    pushTo,
  };
  await fixture.run(job);

  const gone = { url: "http://127.0.0.1:1" };
  const again = await fixture.run({ ...job, registry: gone });

  assert.deepEqual(again.result, { type: "result", ok: true });
  const signatures = await install.registry.referrers(release.repository, digest);
  assert.equal(signatures.length, 1);
});

test("a release that lies in the install unsigned gets its signature from the vendor", async (t) => {
  const { fixture, install, materials } = await twoRegistries(t);
  const { release, releaseKey, digest, sign } = await unsignedRelease(fixture, materials);
  const job: Partial<JobDocument> = {
    operation: "sync",
    materials: [...materials, release],
    parameters: { releases: [digest], releaseKeys: [releaseKey] },
    pushTo: { url: install.url, repository: "" },
  };
  await fixture.run(job);
  assert.deepEqual(await install.registry.referrers(release.repository, digest), []);
  await sign();

  const again = await fixture.run(job);

  assert.deepEqual(again.result, { type: "result", ok: true });
  assert.equal((await install.registry.referrers(release.repository, digest)).length, 1);
});

test("a second install on the same registry mounts what the first one brought", async (t) => {
  const { fixture, install, web, database, materials } = await twoRegistries(t);
  const push = (repository: string) => ({ url: install.url, repository });
  await fixture.run({ operation: "sync", materials, pushTo: push("acme") });

  const second = await fixture.run({
    operation: "sync",
    materials,
    parameters: { mountFrom: materials.map(({ repository }) => `acme/${repository}`) },
    pushTo: push("bolt"),
  });

  assert.deepEqual(second.result, { type: "result", ok: true });
  const brought = second.lines.flatMap((line) => (line.type === "artifact" ? [line] : []));
  assert.deepEqual(
    brought.map(({ repository, copiedBytes }) => [repository, copiedBytes]),
    materials.map(({ repository }) => [`bolt/${repository}`, 0]),
  );
  assert.ok(brought.every(({ sizeBytes }) => (sizeBytes ?? 0) > 0));
  for (const { repository, digest, layer } of [web, database]) {
    const own = `bolt/${repository}`;
    assert.ok(await install.registry.headManifest(own, digest));
    assert.equal(await install.registry.headBlob(own, layer.digest), layer.size);
  }
});

test("the same repository of another install is the first place to mount from", () => {
  const repositories = ["globex/exclave/runner", "acme/apps/crm/api", "acme/exclave/runner"];

  assert.deepEqual(likeliestFirst(repositories, { repository: "apps/crm/api" }), [
    "acme/apps/crm/api",
    "globex/exclave/runner",
    "acme/exclave/runner",
  ]);
});

test("a sync of something the vendor does not have fails, and keeps what it brought", async (t) => {
  const { fixture, install, web, materials } = await twoRegistries(t);
  const digest = Digest.parse(`sha256:${"0".repeat(64)}`);
  const gone = { name: "gone", repository: "apps/shop/gone", digest };

  const { result } = await fixture.run({
    operation: "sync",
    materials: [...materials, gone],
    pushTo: { url: install.url, repository: "" },
  });

  assert.equal(result.failure?.code, "not_found");
  assert.ok(await install.registry.headManifest(web.repository, web.digest));
});

test("a registry that cannot be reached is worth another try", async (t) => {
  const { fixture, materials } = await twoRegistries(t);
  const controller = new AbortController();

  const { result } = await fixture.run(
    { operation: "sync", materials, pushTo: { url: "http://127.0.0.1:1", repository: "" } },
    controller.signal,
  );

  assert.equal(result.failure?.code, "unavailable");
});

test("an attached signature is pushed as it was made, and nothing that is not what it says", async (t) => {
  const { fixture, materials } = await twoRegistries(t);
  const { release, digest, publicKeys } = await unsignedRelease(fixture, materials);
  const made = await signedRelease(fixture, materials);
  const { repository } = release;
  const { bytes, mediaType } = await fixture.registry.readManifest(repository, made.signature);
  const parsed = parseManifest(bytes, mediaType);
  const blobs = await Promise.all(
    blobsOf(parsed).map(async (blob) => ({
      mediaType: blob.mediaType,
      content: toText(await readBlobBytes(fixture.registry, repository, blob)),
    })),
  );
  const attach = { digest: made.signature, mediaType, manifest: toText(bytes), blobs };
  const other = await startRegistry(t, join(fixture.directory, "other-registry"));
  const run = (artifact: unknown) =>
    fixture.run({
      operation: "assemble",
      parameters: { attach: artifact },
      pushTo: { url: other.url, repository },
    });

  const lying = await run({ ...attach, digest });
  const rubbish = await run({ manifest: 1 });
  const unsigned = await other.registry.referrers(repository, digest);
  const { result, lines } = await run(attach);

  assert.deepEqual(
    [lying, rubbish].map(({ result: { failure } }) => failure?.code),
    ["invalid", "invalid"],
  );
  assert.deepEqual(unsigned, []);
  assert.deepEqual(result, { type: "result", ok: true });
  assert.equal(lines.find((line) => line.type === "artifact")?.digest, made.signature);
  const store = other.registry;
  const verdict = await verifyArtifactSignature({ store, repository, digest, publicKeys });
  assert.equal(verdict.kind, "signed");
});

test("an assembled release is one index that is complete in its own repository", async (t) => {
  const { fixture, web, database, materials } = await twoRegistries(t);
  const repository = "releases/shop";

  const { result, lines } = await fixture.run({
    operation: "assemble",
    materials,
    parameters: { annotations: { "dev.exclave.release": "r1" } },
    pushTo: { url: fixture.registryUrl, repository },
  });

  assert.deepEqual(result, { type: "result", ok: true });
  const release = lines.find((line) => line.type === "artifact");
  assert.equal(release?.name, "release");
  const { bytes, mediaType } = await fixture.registry.readManifest(
    repository,
    release?.digest ?? "",
  );
  assert.equal(mediaType, MEDIA_TYPES.index);
  const index = JSON.parse(Buffer.from(bytes).toString("utf8"));
  assert.equal(index.artifactType, "application/vnd.exclave.release.v1+json");
  assert.deepEqual(index.annotations, { "dev.exclave.release": "r1" });
  assert.deepEqual(
    index.manifests.map((entry: { digest: string; annotations: object }) => [
      entry.digest,
      entry.annotations,
    ]),
    materials.map(({ name, digest, repository: home }) => [
      digest,
      { "dev.exclave.material": name, "dev.exclave.repository": home },
    ]),
  );
  for (const { digest, layer } of [web, database]) {
    assert.ok(await fixture.registry.headManifest(repository, digest));
    assert.equal(await fixture.registry.headBlob(repository, layer.digest), layer.size);
  }
});
