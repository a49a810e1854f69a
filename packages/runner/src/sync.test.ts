import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import {
  AppId,
  ComponentName,
  ComponentType,
  Digest,
  Instant,
  type JobDocument,
  statementFor,
} from "@exclave/core";
import {
  createSigner,
  MEDIA_TYPES,
  readStatement,
  signStatement,
  writeBlobBytes,
  writeStatement,
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
const spki = keys.publicKey.export({ format: "der", type: "spki" }).toString("base64");
const ROLE = { keys: [{ keyid: "k", spki, scheme: "ecdsa-p256" as const }], threshold: 1 };

/** The release of these materials, in the registry the jobs read from, and its signed statement. */
async function statedRelease(fixture: JobFixture, materials: JobDocument["materials"]) {
  const repository = "releases/shop";
  const pushTo = { url: fixture.registryUrl, repository };
  const { lines } = await fixture.run({ operation: "assemble", materials, pushTo });
  const written = lines.find((line) => line.type === "artifact");
  const digest = Digest.parse(written?.digest);
  const [some] = materials;
  assert.ok(some);
  const statement = statementFor({
    app: AppId.parse("pshopaaaaaaaaaaaa"),
    appName: "shop",
    release: "r1",
    number: 1,
    versionName: "1",
    index: { repository, digest, sizeBytes: written?.sizeBytes ?? 0 },
    components: materials.map((artifact) => ({
      name: ComponentName.parse(artifact.name),
      type: ComponentType.parse("command"),
      plugin: some,
      artifact,
      config: {},
      effects: {},
    })),
    runner: some,
    sandboxes: [],
    rollbackTo: { numberMin: 1 },
    createdAt: Instant.parse(0),
  });
  const artifact = await signStatement(statement, [createSigner(keys.privateKey)]);
  const stated = { name: "statement", repository, digest: artifact.digest };
  return { release: { name: "release", repository, digest }, digest, artifact, stated };
}

const toText = (bytes: Uint8Array) => Buffer.from(bytes).toString("utf8");

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
  const { release, stated, artifact, digest } = await statedRelease(fixture, materials);
  await writeStatement(fixture.registry, release.repository, artifact);
  const job: Partial<JobDocument> = {
    operation: "sync",
    materials: [...materials, stated, release],
    pushTo,
  };
  await fixture.run(job);

  const gone = { url: "http://127.0.0.1:1" };
  const again = await fixture.run({ ...job, registry: gone });

  assert.deepEqual(again.result, { type: "result", ok: true });
  const { repository } = release;
  const found = await readStatement({
    store: install.registry,
    repository,
    index: digest,
    role: ROLE,
  });
  assert.equal("because" in found ? found.because : found.artifact, stated.digest);
});

test("a sync copies what it was handed, and nothing that is attached to it", async (t) => {
  const { fixture, install, web, materials } = await twoRegistries(t);
  const { release, stated, artifact, digest } = await statedRelease(fixture, materials);
  await writeStatement(fixture.registry, release.repository, artifact);
  const attached = [
    await attach(fixture, web.repository, web.digest),
    await attach(fixture, release.repository, digest),
  ];

  const { result } = await fixture.run({
    operation: "sync",
    materials: [...materials, stated, release],
    pushTo: { url: install.url, repository: "" },
  });

  assert.deepEqual(result, { type: "result", ok: true });
  const referrers = await install.registry.referrers(release.repository, digest);
  assert.deepEqual(
    referrers.map((one) => one.digest),
    [stated.digest],
  );
  assert.deepEqual(await install.registry.referrers(web.repository, web.digest), []);
  for (const { repository, manifest, layer } of attached) {
    assert.equal(await install.registry.headManifest(repository, manifest), undefined);
    assert.equal(await install.registry.headBlob(repository, layer), undefined);
  }
});

/** Something about an artifact that anybody who can push could have written. */
async function attach(fixture: JobFixture, repository: string, subject: Digest) {
  const { registry } = fixture;
  const about = await registry.headManifest(repository, subject);
  const bytes = (value: string) => new TextEncoder().encode(value);
  const layer = await writeBlobBytes(registry, repository, "text/plain", bytes(`about ${subject}`));
  const config = await writeBlobBytes(registry, repository, MEDIA_TYPES.empty, bytes("{}"));
  const mediaType = MEDIA_TYPES.manifest;
  const document = { schemaVersion: 2, mediaType, artifactType: "text/plain", config };
  const text = JSON.stringify({ ...document, layers: [layer], subject: about });
  const manifest = await registry.writeManifest(repository, bytes(text), mediaType);
  return { repository, manifest, layer: layer.digest };
}

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

test("an attached statement is pushed as it was made, and nothing that is not what it says", async (t) => {
  const { fixture, materials } = await twoRegistries(t);
  const { release, digest, artifact } = await statedRelease(fixture, materials);
  const { repository } = release;
  const attach = {
    digest: artifact.digest,
    mediaType: artifact.mediaType,
    manifest: toText(artifact.manifest),
    blobs: artifact.blobs.map(({ mediaType, bytes }) => ({ mediaType, content: toText(bytes) })),
  };
  const other = await startRegistry(t, join(fixture.directory, "other-registry"));
  const run = (given: unknown) =>
    fixture.run({
      operation: "assemble",
      parameters: { attach: given },
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
  assert.equal(lines.find((line) => line.type === "artifact")?.digest, artifact.digest);
  const store = other.registry;
  const found = await readStatement({ store, repository, index: digest, role: ROLE });
  assert.ok(!("because" in found), JSON.stringify(found));
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
