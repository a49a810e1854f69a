import assert from "node:assert/strict";
import { test } from "node:test";
import type { JobLine } from "@exclave/core";
import { createLineWriter } from "./line-writer.ts";

function written(lines: readonly JobLine[], options: { secrets?: string[]; max?: number } = {}) {
  let text = "";
  const out = (line: string) => {
    text += line;
  };
  const write = createLineWriter({
    secrets: options.secrets ?? [],
    logBytesMax: options.max,
    out,
  });
  for (const line of lines) write(line);
  return text;
}

const log = (message: string): JobLine => ({ type: "log", level: "info", message });

test("the leaves of a sensitive output are not in the lines that follow it", () => {
  const value = { nested: ["leaf-one-value", { deep: "leaf-two-value" }] };

  const text = written([
    { type: "output", name: "keys", value, sensitive: true },
    log("leaf-one-value and leaf-two-value"),
  ]);

  const [, said] = text.trim().split("\n");
  assert.equal(said, JSON.stringify(log("[redacted] and [redacted]")));
});

test("a log over its limit has a gap that says how much, before the result", () => {
  const lines = Array.from({ length: 100 }, () => log("x".repeat(100)));

  const text = written([...lines, { type: "result", ok: true }], { max: 1_000 });

  const said = text.trim().split("\n").slice(-3);
  assert.match(said[0] ?? "", /over its limit of 1000 bytes and ends here/);
  assert.match(said[1] ?? "", /[0-9]+ bytes of log were left out/);
  assert.equal(said[2], '{"type":"result","ok":true}');
});

test("a message that no line can hold is cut after its secrets were taken out", () => {
  const secret = "hunter22-is-long";
  const message = `${"y".repeat(16 * 1024 - 5)}${secret}${"z".repeat(5_000_000)}`;

  const text = written([log(message)], { secrets: [secret] });

  assert.ok(text.length < 20_000);
  assert.ok(!text.includes("hunter"));
  assert.match(text, /the rest was left out/);
});
