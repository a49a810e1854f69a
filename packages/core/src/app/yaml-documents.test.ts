import assert from "node:assert/strict";
import { test } from "node:test";
import { Failure } from "../failure.ts";
import { YAML_DOCUMENTS_BYTES_MAX } from "../limits.ts";
import { readYamlDocuments } from "./yaml-documents.ts";

test("reads each document and leaves empty ones out", () => {
  const text = "---\n# nothing\n---\na: 1\n---\nb: [x]\n---\n";

  assert.deepEqual(readYamlDocuments(text, "f"), [{ a: 1 }, { b: ["x"] }]);
  assert.deepEqual(readYamlDocuments("", "f"), []);
});

test("reads words for yes and no, and modes, as Kubernetes tools do", () => {
  assert.deepEqual(readYamlDocuments("a: yes\nb: 0644\nc: 'yes'\n", "f"), [
    { a: true, b: 0o644, c: "yes" },
  ]);
});

test("says which line is not YAML", () => {
  assert.throws(() => readYamlDocuments("a: 1\n---\nb: [\n", "chart"), {
    name: "Failure",
    code: "invalid",
    message: /^chart:\d: this is not YAML/,
  });
});

test("refuses a text that is too large, and aliases that would make it so", () => {
  const rows = Array.from({ length: 9 }, (_, row) => {
    const before = row === 0 ? "x" : `*a${row - 1}`;
    return `a${row}: &a${row} [${Array.from({ length: 9 }, () => before).join(", ")}]`;
  });

  assert.throws(() => readYamlDocuments(rows.join("\n"), "f"));
  assert.throws(
    () => readYamlDocuments("a".repeat(YAML_DOCUMENTS_BYTES_MAX + 1), "f"),
    (reason) => reason instanceof Failure && reason.code === "too_large",
  );
});
