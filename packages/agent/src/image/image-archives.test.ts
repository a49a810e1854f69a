import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { createRegistryClient, packImage, readImage, readTar, serveRegistry } from "@exclave/oci";
import { temporaryDirectory } from "../testing/temporary-directory.ts";
import { createImageArchives } from "./image-archives.ts";

const REPOSITORY = "exclave/plugins/command";

test("an image is an archive of its configuration and layers, named by the tag", async (t) => {
  const { ref, client } = await anImage(t);
  const { manifest } = await readImage(client, REPOSITORY, ref.digest);
  const archive = await createImageArchives().open(ref);
  t.after(() => archive.close());

  const files = new Map<string, Buffer>();
  for await (const entry of readTar(archive.read("exclave.invalid/acme:one"))) {
    assert.ok(entry.type === "file");
    const chunks: Uint8Array[] = [];
    for await (const chunk of entry.content) chunks.push(Buffer.from(chunk));
    files.set(entry.path, Buffer.concat(chunks));
  }

  assert.equal(archive.id, manifest.config.digest);
  const [listed] = JSON.parse(files.get("manifest.json")?.toString() ?? "[]");
  assert.deepEqual(listed.RepoTags, ["exclave.invalid/acme:one"]);
  assert.deepEqual(
    [listed.Config, ...listed.Layers].map((name) => files.get(name)?.length),
    [manifest.config, ...manifest.layers].map(({ size }) => size),
  );
});

test("an image whose layer is damaged in the registry never becomes a whole archive", async (t) => {
  const { ref, client, content } = await anImage(t);
  const { manifest } = await readImage(client, REPOSITORY, ref.digest);
  const [layer] = manifest.layers;
  assert.ok(layer);
  const path = join(content, "blobs", ...layer.digest.split(":"));
  await writeFile(path, Buffer.alloc(layer.size, "x"));
  const archive = await createImageArchives().open(ref);
  t.after(() => archive.close());

  await assert.rejects(async () => {
    for await (const _ of archive.read("exclave.invalid/acme:one")) continue;
  });
});

test("an image that is not in the registry is a failure, not an empty archive", async (t) => {
  const { ref } = await anImage(t);

  const opened = createImageArchives().open({ ...ref, digest: `sha256:${"0".repeat(64)}` });

  await assert.rejects(opened, { code: "not_found" });
});

async function anImage(t: TestContext) {
  const directory = await temporaryDirectory(t);
  const content = join(directory, "content");
  const socket = join(directory, "registry.sock");
  const registry = await serveRegistry({
    directory: content,
    host: "",
    port: 0,
    socket,
    auth: { kind: "anonymous" },
  });
  const registryUrl = "http://registry.exclave.invalid";
  const client = createRegistryClient({ url: registryUrl, socket });
  t.after(async () => {
    client.close();
    await registry.close();
  });
  const layers = [{ files: [{ path: "program", text: "#!/bin/sh\n" }] }];
  const { digest } = await packImage({ store: client, repository: REPOSITORY, layers });
  return { client, content, ref: { registryUrl, socket, repository: REPOSITORY, digest } };
}
