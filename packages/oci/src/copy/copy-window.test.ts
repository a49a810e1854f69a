import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { createWindow, runInWindow } from "./copy-window.ts";

describe("the window of a copy", () => {
  test("halves when it is too much, once per burst, and never closes", () => {
    const window = createWindow(6);

    window.throttled(1_000);
    window.throttled(1_010);

    assert.equal(window.size, 3);
    for (const at of [2_000, 3_000, 4_000, 5_000]) window.throttled(at);
    assert.equal(window.size, 1);
  });

  test("widens with what succeeds, up to where it began", () => {
    const window = createWindow(6);
    window.throttled(1_000);

    for (let n = 0; n < 4; n++) window.succeeded();
    assert.equal(window.size, 4);

    for (let n = 0; n < 40; n++) window.succeeded();
    assert.equal(window.size, 6);
  });

  test("runs no more at once than it is wide, also when it narrows on the way", async () => {
    const window = createWindow(4);
    let running = 0;
    const seen: number[] = [];

    await runInWindow([...Array(20).keys()], window, async (n) => {
      running++;
      seen.push(running);
      if (n === 3) for (const at of [1_000, 2_000]) window.throttled(at);
      await new Promise((resolve) => setImmediate(resolve));
      running--;
    });

    assert.equal(Math.max(...seen), 4);
    assert.equal(seen.length, 20);
    // Four had begun when it became too much; the fifth waited until nearly all of them were done.
    assert.ok((seen[4] ?? 0) <= 2);
  });

  test("begins nothing after a failure, and says which it was when the rest is done", async () => {
    const begun: number[] = [];
    const ended: number[] = [];

    const running = runInWindow([1, 2, 3, 4], createWindow(2), async (n) => {
      begun.push(n);
      if (n === 1) throw new Error("one is broken");
      await new Promise((resolve) => setImmediate(resolve));
      ended.push(n);
    });

    await assert.rejects(running, /one is broken/);
    assert.deepEqual(begun, [1, 2]);
    assert.deepEqual(ended, [2]);
  });
});
