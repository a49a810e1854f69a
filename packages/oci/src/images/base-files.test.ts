import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { chmod, stat, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { createLayer } from "../layer/layer.ts";
import { unpackLayer } from "../layer/unpack.ts";
import { temporaryDirectory } from "../testing/temporary-directory.ts";
import { digestBase, gatherBase } from "./base-files.ts";
import { readElfNeeds } from "./elf-needs.ts";

const lacking = process.platform === "linux" ? false : "needs a Node of Linux";

test("a program's header tells the loader that starts it and the libraries it needs", {
  skip: lacking,
}, async () => {
  const needs = await readElfNeeds(process.execPath);

  assert.match(needs?.loader ?? "", /^\/.*ld-.*\.so/);
  assert.ok(needs?.libraries.some((name) => name.startsWith("libc.")));
});

test("what is no program has no needs, however it begins", async (t) => {
  const file = join(await temporaryDirectory(t), "file");
  for (const text of ["", "#!/bin/sh\n", "\x7fELF", `\x7fELF${"\0".repeat(200)}`]) {
    await writeFile(file, text, "latin1");
    assert.equal(await readElfNeeds(file), undefined);
  }
});

test("Node runs from the base layer with the loader and the libraries that are in it", {
  skip: lacking,
}, async (t) => {
  const root = await temporaryDirectory(t);
  const files = await gatherBase(process.execPath);
  await using layer = await createLayer({ files }, { compressionLevel: 1 });
  await unpackLayer(layer.open(0), layer.descriptor.mediaType, root);
  const { loader = "" } = (await readElfNeeds(process.execPath)) ?? {};
  const folders = new Set(files.map(({ path }) => join(root, path, "..")));

  const run = promisify(execFile);
  const { stdout } = await run(
    join(root, loader),
    ["--library-path", [...folders].join(":"), join(root, "exclave/bin/node"), "--version"],
    { env: {} },
  );

  assert.equal(stdout.trim(), process.version);
  const { stdout: mapped } = await run(
    join(root, loader),
    ["--list", join(root, "exclave/bin/node")],
    { env: { LD_LIBRARY_PATH: [...folders].join(":") } },
  );
  const outside = mapped
    .split("\n")
    .filter((line) => line.includes("=> /") && !line.includes(root));
  assert.deepEqual(outside, [], "every library is the layer's own");
  assert.ok((await stat(join(root, "bin/sh"))).isFile());
});

test("equal files give an equal digest, whenever they were written", async (t) => {
  const node = join(await temporaryDirectory(t), "node");
  await writeFile(node, "not really node");
  await chmod(node, 0o755);
  const first = await digestBase(await gatherBase(node));
  await utimes(node, 1, 1);

  assert.equal(await digestBase(await gatherBase(node)), first);
  await writeFile(node, "another");
  assert.notEqual(await digestBase(await gatherBase(node)), first);
});
