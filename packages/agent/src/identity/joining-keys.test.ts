import assert from "node:assert/strict";
import { stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { temporaryDirectory } from "../testing/temporary-directory.ts";
import { keptJoiningKeys } from "./joining-keys.ts";

test("the same join string gets the same keys again, another one its own", async (t) => {
  const path = join(await temporaryDirectory(t), "joining.json");

  const first = await keptJoiningKeys(path, "one");
  const again = await keptJoiningKeys(path, "one\n");
  const other = await keptJoiningKeys(path, "two");

  assert.deepEqual(again, first);
  assert.notEqual(other.identityKey, first.identityKey);
  assert.equal((await stat(path)).mode & 0o777, 0o600);
});

test("a file that a crash tore is replaced by new keys", async (t) => {
  const path = join(await temporaryDirectory(t), "joining.json");
  await writeFile(path, '{"joinDigest":');

  const keys = await keptJoiningKeys(path, "one");

  assert.match(keys.identityKey, /PRIVATE KEY/);
  assert.deepEqual(await keptJoiningKeys(path, "one"), keys);
});
