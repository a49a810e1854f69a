import assert from "node:assert/strict";
import { test } from "node:test";
import type { ResultLine } from "./job-line.ts";
import { type JobExit, judgeEnd } from "./judge-end.ts";

const ok: ResultLine = { type: "result", ok: true };
const bad: ResultLine = { type: "result", ok: false, failure: { code: "tool", message: "no" } };
const code = (code: number): JobExit => ({ kind: "code", code });
const killed: JobExit = { kind: "signal", signal: "SIGKILL" };
const stopped: JobExit = { kind: "stopped" };
const lost: JobExit = { kind: "lost", because: "its keeper was killed" };

// biome-ignore format: a table reads as a table.
const TABLE: readonly [JobExit, ResultLine | undefined, { cancelled?: true; once?: true }, string][] = [
  [code(0),                  ok,        {},                  "succeeded"],
  [killed,                   ok,        {},                  "succeeded"],
  [code(1),                  bad,       {},                  "failed tool"],
  [code(1),                  bad,       { cancelled: true }, "cancelled"],
  [code(0),                  ok,        { cancelled: true }, "succeeded"],
  [killed,                   undefined, { cancelled: true }, "cancelled"],
  [code(0),                  undefined, {},                  "failed lost"],
  [killed,                   undefined, {},                  "failed killed"],
  [killed,                   undefined, { once: true },      "unknown"],
  [stopped,                  undefined, {},                  "failed killed"],
  [stopped,                  undefined, { cancelled: true }, "cancelled"],
  [stopped,                  undefined, { once: true },      "unknown"],
  [lost,                     undefined, {},                  "failed lost"],
  [lost,                     undefined, { once: true },      "unknown"],
  [{ kind: "deadline" },     undefined, {},                  "failed timeout"],
  [{ kind: "over-limit", because: "full" }, bad, {},         "failed too_large"],
  [{ kind: "deadline" },     bad,       {},                  "failed timeout"],
  [{ kind: "out-of-memory" }, undefined, {},                 "failed out_of_memory"],
  [{ kind: "out-of-memory" }, bad,      { cancelled: true }, "failed out_of_memory"],
];

for (const [exit, result, { cancelled = false, once = false }, expected] of TABLE) {
  const said = result ? `result ok=${result.ok}` : "no result";
  test(`${exit.kind}, ${said}${cancelled ? ", cancelled" : ""}${once ? ", once" : ""}: ${expected}`, () => {
    const effect = once ? "at-most-once" : "fenced";

    const outcome = judgeEnd({ exit, result, isCancelled: cancelled, effect });

    const words = outcome.kind === "failed" ? `failed ${outcome.code}` : outcome.kind;
    assert.equal(words, expected);
  });
}

test("a job that said too much has failed, whatever it says of itself; its own failure counts first", () => {
  const facts = {
    exit: code(0),
    isCancelled: false,
    effect: "fenced",
    refused: "too long",
  } as const;

  assert.deepEqual(judgeEnd({ ...facts, result: ok }), {
    kind: "failed",
    code: "too_large",
    message: "too long",
  });
  const failedBefore = judgeEnd({ ...facts, result: bad });
  assert.equal(failedBefore.kind === "failed" && failedBefore.code, "tool");
});
