import assert from "node:assert/strict";
import { constants } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { temporaryDirectory } from "../testing/temporary-directory.ts";
import { createOpenFiles } from "./open-files.ts";

const flags = constants.O_RDWR | constants.O_CREAT;

test("a file is opened once for many uses", async (t) => {
  const directory = await temporaryDirectory(t);
  const files = createOpenFiles({ flags });
  const path = join(directory, "a");
  const descriptors = new Set<number>();

  for (const text of ["a", "b", "c"]) {
    await files.use(path, async (file) => {
      descriptors.add(file.fd);
      await file.write(text);
    });
  }

  assert.equal(descriptors.size, 1);
  assert.equal(await readFile(path, "utf8"), "abc");
  await files.forget(path);
  assert.equal(files.count(), 0);
});

test("of many files as many stay open as may, those used last", async (t) => {
  const directory = await temporaryDirectory(t);
  const files = createOpenFiles({ flags, filesMax: 2 });
  const fdOf = (name: string) => files.use(join(directory, name), async ({ fd }) => fd);
  const first = await fdOf("a");
  await fdOf("b");

  assert.equal(await fdOf("a"), first);
  await fdOf("c");

  assert.equal(files.count(), 2);
  assert.equal(await fdOf("a"), first);
});

test("a file in use is never closed, however many there are", async (t) => {
  const directory = await temporaryDirectory(t);
  const files = createOpenFiles({ flags, filesMax: 1 });
  const waiting = Promise.withResolvers<void>();
  const held = files.use(join(directory, "a"), async (file) => {
    await waiting.promise;
    await file.write("kept");
  });

  for (const name of ["b", "c"]) await files.use(join(directory, name), async () => undefined);
  await files.forget(join(directory, "a"));
  waiting.resolve();
  await held;

  assert.equal(await readFile(join(directory, "a"), "utf8"), "kept");
});

test("a file that failed is opened anew", async (t) => {
  const directory = await temporaryDirectory(t);
  const files = createOpenFiles({ flags });
  const path = join(directory, "a");

  const failing = files.use(path, async () => {
    throw new Error("no space left");
  });
  await assert.rejects(failing, /no space/);

  assert.equal(files.count(), 0);
  await files.use(path, (file) => file.write("a"));
  assert.equal(await readFile(path, "utf8"), "a");
});
