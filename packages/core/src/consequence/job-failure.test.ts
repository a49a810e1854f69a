import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Instant } from "../ids.ts";
import type { Effect } from "../manifest/manifest.ts";
import { failureOf, type JobSettling } from "./job-failure.ts";

const at = Instant.parse(1_000);
const END: Record<string, JobSettling> = {
  refused: { type: "reject", at, code: "policy", because: "not on Sundays" },
  "refused for having come before": { type: "reject", at, code: "replayed", because: "again" },
  "refused as an old attempt": { type: "reject", at, code: "stale_attempt", because: "again" },
  failed: { type: "end", at, outcome: { kind: "failed", code: "tool", message: "exit 1" } },
  killed: { type: "end", at, outcome: { kind: "failed", code: "lost", message: "SIGKILL" } },
  "out of memory": {
    type: "end",
    at,
    outcome: { kind: "failed", code: "out_of_memory", message: "too much" },
  },
  unknown: { type: "end", at, outcome: { kind: "unknown", because: "nobody saw it end" } },
  abandoned: { type: "abandon", at, because: "the agent lost its journal" },
};

describe("whether an operation may be repeated after its job ended", () => {
  for (const effect of ["idempotent", "fenced"] as const) {
    test(`is never in doubt when it is ${effect}`, () => {
      for (const [name, move] of Object.entries(END)) {
        assert.equal(failureOf(move, { effect, startedAt: at })?.mayRepeat, true, name);
      }
    });
  }

  // biome-ignore format: a table reads as a table.
  const ONCE: [keyof typeof END, started: boolean, mayRepeat: boolean][] = [
    ["refused", false, true],  ["failed", false, true],   ["failed", true, false],
    ["killed", true, false],   ["out of memory", true, false],
    ["unknown", false, false], ["unknown", true, false],
    ["abandoned", false, false], ["abandoned", true, false],
    ["refused for having come before", false, false], ["refused as an old attempt", false, false],
  ];
  for (const [name, isStarted, mayRepeat] of ONCE) {
    test(`at most once, ${name}, ${isStarted ? "begun" : "not begun"}: ${mayRepeat}`, () => {
      const effect: Effect = "at-most-once";
      const move = END[name];
      assert.ok(move);
      const failure = failureOf(move, { effect, startedAt: isStarted ? at : null });

      assert.equal(failure?.mayRepeat, mayRepeat);
    });
  }

  test("is not a question after a success", () => {
    const move: JobSettling = { type: "end", at, outcome: { kind: "succeeded" } };

    assert.equal(failureOf(move, { effect: "at-most-once", startedAt: at }), undefined);
  });

  test("a refusal by a code of another version is a failure all the same", () => {
    const move = { type: "reject", at, code: "new_in_v9", because: "no" } as const;
    const stale = { ...move, code: "stale_attempt" } as const;

    assert.equal(failureOf(move, { effect: "idempotent", startedAt: null })?.code, "conflict");
    assert.equal(failureOf(stale, { effect: "idempotent", startedAt: null })?.code, "replayed");
  });
});
