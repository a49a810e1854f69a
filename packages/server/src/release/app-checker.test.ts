import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { APP_CHECK_LIMITS, createAppChecker } from "./app-checker.ts";

const APP = { text: "app: a\ncomponents: [{ name: a, type: x }]", file: "f" };

/** A program that does what the text says. */
const PROGRAM = `
  process.send("ready");
  process.on("disconnect", () => process.exit());
  process.on("message", ({ text }) => {
    if (text === "for ever") for (;;);
    const kept = [];
    if (text === "memory") for (;;) kept.push(new Array(1000).fill(kept.length + 0.5));
    if (text.startsWith("slow")) { const end = Date.now() + 100; while (Date.now() < end); }
    if (text === "who") text = String(process.pid);
    process.send({ problems: [{ file: "f", line: 1, column: 1, message: text, path: [] }] });
  });`;

function scripted(
  t: TestContext,
  changes: Partial<typeof APP_CHECK_LIMITS> = {},
  text: string = PROGRAM,
) {
  const directory = mkdtempSync(join(tmpdir(), "app-checker-"));
  t.after(() => rmSync(directory, { recursive: true }));
  const program = join(directory, "program.mjs");
  writeFileSync(program, text);
  const checker = createAppChecker({ ...APP_CHECK_LIMITS, restFactor: 0, ...changes }, program);
  t.after(() => checker.close());
  return checker;
}
const said = (text: string) => ({ text, file: "f" });

test("an app is checked in its own process as it is anywhere", async (t) => {
  const checker = createAppChecker();
  t.after(() => checker.close());

  const good = await checker.check(APP, "somebody");
  const bad = await checker.check({ ...APP, text: "app: [" }, "somebody");

  assert.equal(good.app?.app, "a");
  assert.ok(bad.problems.length > 0);
});

test("one that takes for ever is ended at its deadline, and the next is checked", async (t) => {
  const checker = scripted(t, { deadlineMs: 200 });

  await assert.rejects(checker.check(said("for ever"), "viewer"), { code: "timeout" });
  const next = await checker.check(said("next"), "viewer");

  assert.equal(next.problems[0]?.message, "next");
});

test("a program that never becomes ready is given up, and each check says so", async (t) => {
  const checker = scripted(t, { startMsMax: 100 }, "setInterval(() => undefined, 1_000);");
  const notReady = { code: "unavailable", message: /not ready after 0\.1 s; try again/ };

  await assert.rejects(checker.check(said("first"), "viewer"), notReady);
  await assert.rejects(checker.check(said("second"), "viewer"), notReady);
});

test("one that takes all memory ends its own process and not the server", async (t) => {
  const checker = scripted(t, { memoryMb: 32, deadlineMs: 60_000 });

  await assert.rejects(checker.check(said("memory"), "viewer"), { code: "too_large" });
  assert.ok(await checker.check(said("next"), "viewer"));
});

test("one that is under way when the server stops is told so, and not that it is too large", async (t) => {
  const checker = scripted(t);
  await checker.check(said("first"), "viewer");
  const ending = assert.rejects(checker.check(said("for ever"), "viewer"), { code: "unavailable" });
  await sleep(0);

  await checker.close();

  await ending;
});

test("the event loop goes on meanwhile", async (t) => {
  const checker = scripted(t, { deadlineMs: 500 });
  let turns = 0;
  const timer = setInterval(() => turns++, 10);

  await assert.rejects(checker.check(said("for ever"), "viewer"), { code: "timeout" });
  clearInterval(timer);

  assert.ok(turns > 5, `${turns} turns`);
});

test("a caller who sends many is told so, and does not keep others waiting", async (t) => {
  const checker = scripted(t, { restFactor: 50 });
  const order: string[] = [];
  const check = (text: string, by: string) =>
    checker.check(said(text), by).then(() => void order.push(text));
  const flood = Array.from({ length: 12 }, (_, n) => check(`slow ${n + 1}`, "viewer"));
  const ends = Promise.allSettled(flood);
  const other = check("other", "operator");

  await Promise.all([flood[0], other]);
  await checker.close();

  const refused = (await ends).flatMap((end) =>
    end.status === "rejected" ? [(end.reason as { code: string }).code] : [],
  );
  assert.ok(refused.filter((code) => code === "rate_limited").length >= 7);
  assert.deepEqual(order, ["slow 1", "other"]);
});

test("a program that has nothing to check is ended, and the next check has another", async (t) => {
  const checker = scripted(t, { idleMs: 20 });
  const pidOf = async () => Number((await checker.check(said("who"), "a")).problems[0]?.message);

  const first = await pidOf();
  await until(() => !isThere(first));
  const second = await pidOf();

  assert.notEqual(first, second);
});

function isThere(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await sleep(10);
}
