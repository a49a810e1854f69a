import assert from "node:assert/strict";
import { test } from "node:test";
import { createProgress } from "./oci-progress.ts";

const half = { copiedBytes: 1e6, skippedBytes: 0, totalBytes: 2e6, bytesPerSecond: 5e5 };
const whole = { ...half, skippedBytes: 1e6 };

function screen(isTTY: boolean) {
  const written: string[] = [];
  return { isTTY, written, write: (text: string) => written.push(text) };
}

test("on a terminal one line changes, and ends with the copy", () => {
  const terminal = screen(true);
  const report = createProgress(terminal, () => 0);

  report(half);
  report(whole);

  const lines = ["1.0 of 2.0 MB, 0.5 MB/s", "2.0 of 2.0 MB, 0.5 MB/s\n"];
  assert.deepEqual(
    terminal.written,
    lines.map((line) => `\r\x1b[K${line}`),
  );
});

test("elsewhere there is a line every few seconds", () => {
  const file = screen(false);
  let now = 0;
  const report = createProgress(file, () => now);

  for (now = 0; now <= 12_000; now += 1_000) report(half);

  assert.deepEqual(file.written, Array(2).fill("1.0 of 2.0 MB, 0.5 MB/s\n"));
});
