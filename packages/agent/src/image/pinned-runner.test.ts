import assert from "node:assert/strict";
import { mkdir, readdir, readFile, rm, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import type { ArtifactRef } from "@exclave/core";
import { createRegistryClient, MEDIA_TYPES, serveRegistry, writeBlobBytes } from "@exclave/oci";
import { temporaryDirectory } from "../testing/temporary-directory.ts";
import { createPinnedRunner } from "./pinned-runner.ts";

const repository = "exclave/runner";
const bytes = (text: string) => new TextEncoder().encode(text);

async function anInstall(t: TestContext) {
  const home = await temporaryDirectory(t);
  const place = join(home, "registry");
  const served = await serveRegistry({
    directory: place,
    host: "127.0.0.1",
    port: 0,
    auth: { kind: "anonymous" },
  });
  const client = createRegistryClient({ url: served.url });
  t.after(async () => {
    client.close();
    await served.close();
  });
  const pins = join(home, "runner");
  const runner = createPinnedRunner(pins, { url: served.url, token: async () => "" });
  return { place, client, pins, runner, push };

  async function push(program: string): Promise<ArtifactRef> {
    const config = await writeBlobBytes(client, repository, MEDIA_TYPES.empty, bytes("{}"));
    const layer = await writeBlobBytes(client, repository, "text/plain", bytes(program));
    const manifest = { schemaVersion: 2, mediaType: MEDIA_TYPES.manifest, config, layers: [layer] };
    const text = bytes(JSON.stringify(manifest));
    const digest = await client.writeManifest(repository, text, MEDIA_TYPES.manifest);
    return { repository, digest };
  }
}

type Install = Awaited<ReturnType<typeof anInstall>>;

/** The files of the registry that hold these bytes. */
async function filesWith({ place }: Install, content: string): Promise<string[]> {
  const entries = await readdir(place, { recursive: true, withFileTypes: true });
  const paths = entries
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name));
  const texts = await Promise.all(paths.map((path) => readFile(path, "utf8")));
  return paths.filter((_, at) => texts[at] === content);
}

async function programOf({ client }: Install, { digest }: ArtifactRef): Promise<string> {
  const { bytes: text } = await client.readManifest(repository, digest);
  const { layers } = JSON.parse(new TextDecoder().decode(text));
  const chunks: Uint8Array[] = [];
  for await (const chunk of client.readBlob(repository, layers[0].digest)) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

for (const [what, damage] of Object.entries({
  gone: (path: string) => rm(path),
  "cut short": (path: string) => truncate(path, 3),
  "changed in a byte": (path: string) => writeFile(path, "the runnex"),
})) {
  test(`a runner whose bytes are ${what} in the install's registry is put back`, async (t) => {
    const install = await anInstall(t);
    const ref = await install.push("the runner");
    await install.runner.pin(ref);
    const held = await filesWith(install, "the runner");
    assert.ok(held.length > 0, "the registry holds it in a file");
    for (const path of held) await damage(path);

    assert.equal(await install.runner.restore(ref), true);

    assert.equal(await programOf(install, ref), "the runner");
  });
}

test("of a runner that was never pinned there is nothing to put back", async (t) => {
  const install = await anInstall(t);
  const ref = await install.push("the runner");

  assert.equal(await install.runner.restore(ref), false);
});

test("the newest two are kept, also after a pin that was cut off", async (t) => {
  const install = await anInstall(t);
  const refs: ArtifactRef[] = [];
  for (const program of ["one", "two", "three"]) {
    const ref = await install.push(program);
    refs.push(ref);
    const draft = join(install.pins, `${ref.digest.replace(":", "-")}.draft`);
    await mkdir(draft, { recursive: true });
    await writeFile(join(draft, "index.json"), "{");
    await install.runner.pin(ref);
  }

  const restored = await Promise.all(refs.map((ref) => install.runner.restore(ref)));

  assert.deepEqual(restored, [false, true, true]);
  assert.equal((await readdir(install.pins)).length, 2);
});
