import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { killedFailure, watchProgram } from "./program-end.ts";

const isLinux = process.platform === "linux";

/** Kills a program while the kernel's count of such kills goes from one figure to another. */
async function killedWhile(before: number, after: number) {
  let count = before;
  const child = spawn("sleep", ["60"]);
  const { ended } = watchProgram(child, { memoryKills: () => count });
  await once(child, "spawn");
  count = after;
  child.kill("SIGKILL");
  return killedFailure("sleep", await ended);
}

test("a program the kernel killed for want of memory failed as out of memory", async () => {
  const failure = await killedWhile(4, 5);

  assert.equal(failure?.code, "out_of_memory");
  assert.match(failure.message, /no memory left/);
});

test("one that somebody else killed did not", async () => {
  assert.equal((await killedWhile(4, 4))?.code, "killed");
});

test("when memory runs out, a program goes before the runner that waits for it", {
  skip: !isLinux,
}, async () => {
  const child = spawn("sleep", ["60"]);
  const { ended } = watchProgram(child);
  const score = readFileSync(`/proc/${child.pid}/oom_score_adj`, "utf8");
  child.kill("SIGKILL");
  await ended;

  assert.equal(Number(score), 200);
});
