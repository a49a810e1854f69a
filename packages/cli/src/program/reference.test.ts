import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { EXIT, EXIT_MEANS } from "@exclave/core";
import { writtenPages } from "../testing/written-pages.ts";

for (const { file, text } of writtenPages()) {
  test(`${file.pathname.split("/").at(-1)} says what the program does`, async () => {
    const kept = await readFile(file, "utf8");
    // The formatter may lay out JSON its own way; what it says is what counts.
    const [there, wanted] = file.pathname.endsWith(".json")
      ? [JSON.parse(kept), JSON.parse(text)]
      : [kept, text];
    assert.deepEqual(there, wanted, "run `npm run docs -w exclave`");
  });
}

test("every exit code has a meaning of its own", () => {
  assert.deepEqual(Object.keys(EXIT), Object.keys(EXIT_MEANS));
  assert.equal(new Set(Object.values(EXIT)).size, Object.keys(EXIT).length);
});
