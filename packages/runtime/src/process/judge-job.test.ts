import assert from "node:assert/strict";
import { test } from "node:test";
import type { JobExit } from "../job-runtime.ts";
import { type Allowed, type Ended, exitOf, judgeJob, type Measured } from "./judge-job.ts";

const MIB = 1024 ** 2;
const quiet: Measured = {
  ranMs: 10,
  processes: 2,
  memoryBytes: 100,
  outputBytes: 0,
  diskBytes: 0,
};
const allowed: Allowed = {
  deadlineMs: 1_000,
  limits: { memoryBytes: 200, processesMax: 4, logBytesMax: MIB, diskBytesMax: 300 },
};

// biome-ignore format: a table reads as a table.
const TABLE: [title: string, measured: Partial<Measured>, verdict: string | undefined][] = [
  ["within every limit",                {},                                  undefined],
  ["exactly at the memory limit",       { memoryBytes: 200 },                undefined],
  ["over the memory limit",             { memoryBytes: 201 },                "out-of-memory"],
  ["exactly at the process limit",      { processes: 4 },                    undefined],
  ["over the process limit",            { processes: 5 },                    "over-limit"],
  ["with a log over its limit",         { outputBytes: 3 * MIB },            undefined],
  ["that prints and prints",            { outputBytes: 65 * MIB + 1 },       "over-limit"],
  ["exactly at the disk limit",         { diskBytes: 300 },                  undefined],
  ["over the disk limit",               { diskBytes: 301 },                  "over-limit"],
  ["just before the deadline",          { ranMs: 999 },                      undefined],
  ["at the deadline",                   { ranMs: 1_000 },                    "deadline"],
  ["late and too large: memory first",  { ranMs: 2_000, memoryBytes: 201 },  "out-of-memory"],
];

for (const [title, measured, verdict] of TABLE) {
  test(`a job ${title}: ${verdict ?? "goes on"}`, () => {
    assert.equal(judgeJob({ ...quiet, ...measured }, allowed)?.kind, verdict);
  });
}

test("a job without limits is held to its deadline alone", () => {
  const huge = { ranMs: 10, processes: 1e6, memoryBytes: 1e15, outputBytes: 1e15, diskBytes: 1e15 };

  assert.equal(judgeJob(huge, { deadlineMs: 1_000, limits: {} }), undefined);
});

// biome-ignore format: a table reads as a table.
const ENDS: readonly (readonly [string, Ended, Partial<Parameters<typeof exitOf>[1]>, JobExit])[] = [
  ["by itself",                        { code: 3, signal: null },         {},                 { kind: "code", code: 3 }],
  ["by itself, while others were killed", { code: 3, signal: null },      { memoryKills: 1 }, { kind: "code", code: 3 }],
  ["by a signal",                      { code: null, signal: "SIGTERM" }, { memoryKills: 1 }, { kind: "signal", signal: "SIGTERM" }],
  ["killed by somebody",               { code: null, signal: "SIGKILL" }, {},                 { kind: "signal", signal: "SIGKILL" }],
  ["killed by a kernel out of memory", { code: null, signal: "SIGKILL" }, { memoryKills: 1 }, { kind: "out-of-memory" }],
  ["over its memory limit",            { code: null, signal: "SIGKILL" }, { verdict: { kind: "out-of-memory", because: "" } }, { kind: "out-of-memory" }],
  ["over another limit, as the kernel kills", { code: null, signal: "SIGKILL" }, { verdict: { kind: "over-limit", because: "disk" }, memoryKills: 1 }, { kind: "over-limit", because: "disk" }],
  ["past its deadline",                { code: null, signal: "SIGKILL" }, { verdict: { kind: "deadline", because: "" }, memoryKills: 1 }, { kind: "deadline" }],
];

for (const [name, end, seen, exit] of ENDS) {
  test(`a job that ended ${name} is reported as ${exit.kind}`, () => {
    assert.deepEqual(exitOf(end, { verdict: undefined, memoryKills: 0, ...seen }), exit);
  });
}
