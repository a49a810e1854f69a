import assert from "node:assert/strict";
import { lstat, mkdir, readdir, readFile, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, type TestContext, test } from "node:test";
import { Failure } from "@exclave/core";
import { type ContentStore, writeBlobBytes } from "../content/content-store.ts";
import { type Descriptor, MEDIA_TYPES } from "../content/descriptor.ts";
import { bytesOf } from "../content/digest.ts";
import { createMemoryStore } from "../content/memory-store.ts";
import { createLayer } from "../layer/layer.ts";
import { temporaryDirectory } from "../testing/temporary-directory.ts";
import { TITLE, UNPACK } from "./file-annotations.ts";
import { pullFiles } from "./pull-files.ts";

const OCTETS = "application/octet-stream";

async function world(t: TestContext) {
  const top = await temporaryDirectory(t);
  const directory = join(top, "out");
  await mkdir(directory);
  const store = createMemoryStore();
  const pull = (from: ContentStore, ...layers: Descriptor[]) =>
    pullFiles({
      store: from,
      repository: "a",
      layers,
      directory,
      signal: AbortSignal.timeout(9_000),
    });
  return { top, directory, store, pull };
}

async function titled(store: ContentStore, title: string, text: string, mediaType = OCTETS) {
  const layer = await writeBlobBytes(store, "a", mediaType, Buffer.from(text));
  return { ...layer, annotations: { [TITLE]: title } };
}

describe("pulling files", () => {
  test("replaces a link by the file instead of writing where it leads", async (t) => {
    const { top, directory, store, pull } = await world(t);
    await writeFile(join(top, "victim.txt"), "precious");
    await symlink("../victim.txt", join(directory, "notes.txt"));

    await pull(store, await titled(store, "notes.txt", "new"));

    assert.equal(await readFile(join(top, "victim.txt"), "utf8"), "precious");
    assert.equal(await readFile(join(directory, "notes.txt"), "utf8"), "new");
    assert.ok((await lstat(join(directory, "notes.txt"))).isFile());
  });

  test("keeps the file that is there when the bytes are wrong or end too soon", async (t) => {
    const { directory, store, pull } = await world(t);
    await writeFile(join(directory, "notes.txt"), "good");
    const layer = await titled(store, "notes.txt", "right bytes");

    for (const bytes of ["wrong bytes", "right"]) {
      const lying = { ...store, readBlob: () => bytesOf(Buffer.from(bytes)) };
      await assert.rejects(pull(lying, layer), /does not match/);
    }

    assert.equal(await readFile(join(directory, "notes.txt"), "utf8"), "good");
    assert.deepEqual(await readdir(directory), ["notes.txt"]);
  });

  test("keeps the files that are there when an archive turns out to be another one", async (t) => {
    const { top, directory, store, pull } = await world(t);
    await writeFile(join(directory, "notes.txt"), "good");
    await mkdir(join(top, "from"));
    await writeFile(join(top, "from/notes.txt"), "replaced");
    await using other = await createLayer({ directory: join(top, "from") });
    const layer = await writeBlobBytes(store, "a", MEDIA_TYPES.layerGzip, Buffer.from("expected"));
    const lying = { ...store, readBlob: () => other.open(0) };

    await assert.rejects(pull(lying, layer), /does not match/);

    assert.equal(await readFile(join(directory, "notes.txt"), "utf8"), "good");
    assert.deepEqual(await readdir(directory), ["notes.txt"]);
  });

  test("takes a layer with a name for a file whatever its type, and unpacks what asks for it", async (t) => {
    const { directory, store, pull } = await world(t);
    await mkdir(join(directory, "../from"));
    await writeFile(join(directory, "../from/inside"), "inside");
    await using layer = await createLayer({ directory: join(directory, "../from") });
    await store.writeBlob("a", layer.descriptor, layer.open);
    const marked = { ...layer.descriptor, annotations: { [TITLE]: "x", [UNPACK]: "true" } };

    // As oras pushes a text file when nobody says what it is.
    await pull(store, await titled(store, "hello.txt", "hello", MEDIA_TYPES.layerTar));
    await pull(store, { ...layer.descriptor, annotations: { [TITLE]: "inside.tgz" } });
    await pull(store, { ...marked, mediaType: "application/vnd.example.own" });

    assert.deepEqual((await readdir(directory)).sort(), ["hello.txt", "inside", "inside.tgz"]);
    assert.equal(await readFile(join(directory, "hello.txt"), "utf8"), "hello");
  });

  for (const title of ["", ".", "..", "../up", "/tmp/absolute", "sub/file", "a\0b"]) {
    test(`writes nothing under the name ${JSON.stringify(title)}`, async (t) => {
      const { top, directory, store, pull } = await world(t);

      await assert.rejects(
        pull(store, await titled(store, title, "x")),
        (reason) => reason instanceof Failure && reason.code === "invalid",
      );

      assert.deepEqual(await readdir(directory), []);
      assert.deepEqual(await readdir(top), ["out"]);
    });
  }
});
