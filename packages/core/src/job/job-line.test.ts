import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { parseJobLine } from "./job-line.ts";

describe("a line of a job's output", () => {
  test("is read with its defaults", () => {
    assert.deepEqual(parseJobLine('{"type":"log","message":"hi"}'), {
      type: "log",
      level: "info",
      message: "hi",
    });
    assert.deepEqual(parseJobLine('{"type":"output","name":"url","value":1}'), {
      type: "output",
      name: "url",
      value: 1,
      sensitive: false,
    });
  });

  test("may hold more than we know, from a newer plugin", () => {
    assert.equal(parseJobLine('{"type":"result","ok":true,"new":1}')?.type, "result");
  });

  // biome-ignore format: a table reads as a table.
  const TEXT = [
    "plain text", "", '{"type":"log"}', '{"type":"dance"}', "{broken", '["log"]',
    '{"type":"result","ok":"yes"}', '{"type":"result","ok":false,"failure":{"code":"nonsense","message":""}}',
    '{"type":"artifact","name":"a","repository":"r","digest":"sha256:short"}',
  ];
  for (const line of TEXT) {
    test(`is plain text when it is ${JSON.stringify(line)}`, () => {
      assert.equal(parseJobLine(line), undefined);
    });
  }
});
