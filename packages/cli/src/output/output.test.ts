import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { pairs, render, shortDigest, table, time } from "./output.ts";

describe("a table", () => {
  const columns = [
    { header: "NAME", cell: ({ name }: { name: string }) => name },
    { header: "N", cell: () => "1" },
  ];

  test("has columns as wide as their widest cell, colours not counted", () => {
    const rows = [{ name: "\u001B[32mab\u001B[0m" }, { name: "abcdef" }];

    assert.equal(
      table(rows, columns, "none"),
      "NAME    N\n\u001B[32mab\u001B[0m      1\nabcdef  1",
    );
  });

  test("keeps a row in one line, and terminal codes of others out", () => {
    const rows = [{ name: "a\nb\u001B[2Jc\u0007" }];

    assert.equal(table(rows, columns, "none").split("\n")[1], "a ⏎ b[2Jc  1");
  });

  test("of nothing is a sentence", () => {
    assert.equal(table([], columns, "there is none"), "there is none");
  });
});

test("pairs leave out what has no value", () => {
  assert.equal(
    pairs([
      ["a", "1"],
      ["long", null],
      ["bb", "2"],
    ]),
    "a   1\nbb  2",
  );
});

test("text ends with one line end, whatever the format", () => {
  const answer = { value: { a: 1 }, text: () => "text", names: () => ["x", "y"] };

  assert.deepEqual(
    (["table", "json", "yaml", "name"] as const).map((format) => render(answer, format)),
    ["text\n", '{\n  "a": 1\n}\n', "a: 1\n", "x\ny\n"],
  );
});

test("times are UTC and digests are cut where they can still be told apart", () => {
  assert.equal(time(0), "1970-01-01T00:00:00Z");
  assert.equal(time(null), "-");
  assert.equal(shortDigest(`sha256:${"a".repeat(64)}`), "sha256:aaaaaaaaaaaa");
});
