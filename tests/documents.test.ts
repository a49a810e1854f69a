// Documents name the test that holds a sentence. A test that was moved or removed takes its sentence's
// proof along unseen, unless this notices.

import assert from "node:assert/strict";
import { existsSync, globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

const ROOT = join(import.meta.dirname, "..");
const DOCUMENTS = ["*.md", "docs/**/*.md"];
const TEST_FILE =
  /`((?:packages|plugins|sandboxes|tests|tools|examples)\/[\w./-]+\.(?:test|e2e)\.ts)`/g;

test("every test that a document names exists", () => {
  const files = DOCUMENTS.flatMap((pattern) => globSync(pattern, { cwd: ROOT }));
  const named = files.flatMap((file) =>
    [...readFileSync(join(ROOT, file), "utf8").matchAll(TEST_FILE)].map(([, path = ""]) => ({
      file,
      path,
    })),
  );

  assert.ok(named.length > 20, "documents name tests");
  assert.deepEqual(
    named.filter(({ path }) => !existsSync(join(ROOT, path))),
    [],
  );
});
