import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { CALLS } from "@exclave/api";

test("the API's page in the docs has a row for every call, and no other", async () => {
  const page = await readFile(
    new URL("../../../../docs/reference/api.md", import.meta.url),
    "utf8",
  );

  const rows = page.split("\n").filter((line) => /^\| (GET|POST|PUT|DELETE) \|/.test(line));

  const calls = CALLS.map(
    ({ method, path, access, summary }) => `| ${method} | \`${path}\` | ${access} | ${summary} |`,
  );
  assert.deepEqual(rows, calls);
});
