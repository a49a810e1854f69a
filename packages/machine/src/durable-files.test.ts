import assert from "node:assert/strict";
import { promises } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { markDurably, writeDurably } from "./durable-files.ts";
import { temporaryDirectory } from "./testing/temporary-directory.ts";

function refuseNewFiles(t: TestContext): void {
  t.mock.method(promises, "open", () =>
    Promise.reject(Object.assign(new Error("no space left on device"), { code: "ENOSPC" })),
  );
  syncBuiltinESMExports();
  t.after(() => {
    t.mock.restoreAll();
    syncBuiltinESMExports();
  });
}

test("a file replaces the one before it as a whole, and leaves nothing else", async (t) => {
  const directory = await temporaryDirectory(t);
  const file = join(directory, "new", "file");

  await writeDurably(file, "one");
  await writeDurably(file, "two");

  assert.equal(await readFile(file, "utf8"), "two");
  assert.deepEqual(await readdir(join(directory, "new")), ["file"]);
});

test("a disk that has no room for another name is full", async (t) => {
  const file = join(await temporaryDirectory(t), "file");
  refuseNewFiles(t);

  await assert.rejects(writeDurably(file, "text"), { code: "disk_full" });
  await assert.rejects(markDurably(file), { code: "disk_full" });
});
