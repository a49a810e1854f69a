import assert from "node:assert/strict";
import { test } from "node:test";
import type { LogFrame } from "@exclave/api";
import { createJoinedLogs } from "./join-logs.ts";

test("what follows on of one job is one piece, jobs and attempts apart", () => {
  const logs = createJoinedLogs();
  const taken = [
    logs.add(frame("a", 1, 0, "he")),
    logs.add(frame("b", 1, 7, "x")),
    logs.add(frame("a", 1, 2, "llo")),
    logs.add(frame("a", 2, 0, "again")),
  ];

  assert.deepEqual(taken, [true, true, true, true]);
  assert.deepEqual(shown(logs.frames()), ["a 1 0 hello", "b 1 7 x", "a 2 0 again"]);
});

test("what is sent again, or after a gap, is left for later", () => {
  const logs = createJoinedLogs();
  logs.add(frame("a", 1, 0, "hello"));

  assert.equal(logs.add(frame("a", 1, 3, "lo")), false);
  assert.equal(logs.add(frame("a", 1, 9, "gap")), false);
  assert.deepEqual(shown(logs.frames()), ["a 1 0 hello"]);
});

function frame(job: string, attempt: number, offset: number, text: string): LogFrame {
  return { job, attempt, offset, bytes: Buffer.from(text) };
}

function shown(frames: readonly LogFrame[]): string[] {
  return frames.map(({ job, attempt, offset, bytes }) =>
    [job, attempt, offset, Buffer.from(bytes).toString()].join(" "),
  );
}
