import assert from "node:assert/strict";
import { test } from "node:test";
import { createSystemTimers } from "./timers.ts";

const timers = createSystemTimers();

test("a sleep ends by itself, or with the reason of the signal that ends it", async () => {
  const stopping = new AbortController();

  await timers.sleep(1, stopping.signal);
  const sleeping = timers.sleep(60_000, stopping.signal);
  stopping.abort(new Error("enough"));

  await assert.rejects(sleeping, /enough/);
  await assert.rejects(timers.sleep(1, stopping.signal), /enough/);
});

test("work that was called off is not done", async () => {
  const done: string[] = [];
  timers.after(1, () => done.push("after"));
  timers.after(1, () => done.push("called off"))();
  const callOff = timers.every(1, () => done.push("every"));

  while (!done.includes("after") || done.filter((name) => name === "every").length < 2) {
    await timers.sleep(1);
  }
  callOff();
  const count = done.length;
  await timers.sleep(20);

  assert.equal(done.length, count);
  assert.ok(!done.includes("called off"));
});
