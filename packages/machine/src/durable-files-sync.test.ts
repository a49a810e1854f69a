import assert from "node:assert/strict";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { createDurablySync, writeDurablySync } from "./durable-files-sync.ts";
import { temporaryDirectory } from "./testing/temporary-directory.ts";

test("a file replaces the one before it as a whole, is its owner's, and leaves nothing else", async (t) => {
  const directory = join(await temporaryDirectory(t), "new");
  const file = join(directory, "file");

  writeDurablySync(file, "one");
  writeDurablySync(file, "x".repeat(3_000_000));

  assert.equal(readFileSync(file, "utf8").length, 3_000_000);
  assert.deepEqual(readdirSync(directory), ["file"]);
  assert.equal(statSync(file).mode & 0o777, 0o600);
  assert.equal(statSync(directory).mode & 0o777, 0o700);
});

test("what is there is not created again, and stays as it was", async (t) => {
  const directory = await temporaryDirectory(t);
  const file = join(directory, "file");

  assert.equal(createDurablySync(file, "one"), true);
  assert.equal(createDurablySync(file, "two"), false);

  assert.equal(readFileSync(file, "utf8"), "one");
  assert.deepEqual(readdirSync(directory), ["file"]);
});
