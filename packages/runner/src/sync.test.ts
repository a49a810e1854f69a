import assert from "node:assert/strict";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { Digest, type JobDocument } from "@exclave/core";
import { MEDIA_TYPES, writeBlobBytes } from "@exclave/oci";
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

test("a sync brings every material by digest, and says what it cost", async (t) => {
  const { fixture, install, web, materials } = await twoRegistries(t);
  const pushTo = { url: install.url, repository: "unused" };

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

test("a sync of something the vendor does not have fails, and keeps what it brought", async (t) => {
  const { fixture, install, web, materials } = await twoRegistries(t);
  const digest = Digest.parse(`sha256:${"0".repeat(64)}`);
  const gone = { name: "gone", repository: "apps/shop/gone", digest };

  const { result } = await fixture.run({
    operation: "sync",
    materials: [...materials, gone],
    pushTo: { url: install.url, repository: "unused" },
  });

  assert.equal(result.failure?.code, "not_found");
  assert.ok(await install.registry.headManifest(web.repository, web.digest));
});

test("a registry that cannot be reached is worth another try", async (t) => {
  const { fixture, materials } = await twoRegistries(t);
  const controller = new AbortController();

  const { result } = await fixture.run(
    { operation: "sync", materials, pushTo: { url: "http://127.0.0.1:1", repository: "unused" } },
    controller.signal,
  );

  assert.equal(result.failure?.code, "unavailable");
});

test("an assembled release is one index that is complete in its own repository", async (t) => {
  const { fixture, web, database, materials } = await twoRegistries(t);
  const repository = "apps/shop/_release";

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
