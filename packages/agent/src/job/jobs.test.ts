import assert from "node:assert/strict";
import { test } from "node:test";
import { createSystemTimers } from "@exclave/api";
import { Failure } from "@exclave/core";
import type { JobRuntime } from "@exclave/runtime";
import { createFakeRuntime } from "@exclave/runtime/testing";
import { createMemoryJournal } from "../journal/memory-journal.ts";
import { job, recordOf } from "../testing/builders.ts";
import { createJobs } from "./jobs.ts";
import { createMemorySpool } from "./memory-spool.ts";

const GRANT = { registryUrl: "http://vendor.test", credential: "c", expiresAt: 1 };
const SILENT = { debug() {}, info() {}, warn() {}, error() {} };

function launchOn(runtime: JobRuntime) {
  const journal = createMemoryJournal({ journalId: "journal" });
  const gate = {
    admit: async () => ({ writes: [], statements: [] }),
    statusOf: async () => assert.fail("nobody looks at a status"),
  };
  const jobs = createJobs({
    runtime,
    spool: createMemorySpool(),
    journal,
    place: { gate, journal, evaluate: (config) => config, origins: () => [GRANT.registryUrl] },
    now: () => 1_000,
    timers: createSystemTimers(),
    log: SILENT,
  });
  return jobs.launch(recordOf(job()), { grant: GRANT });
}

function startedWithoutAnswer(runtime: JobRuntime): JobRuntime["start"] {
  return async (spec) => {
    await runtime.start(spec);
    throw new Failure("unavailable", "no answer");
  };
}

test("a start that failed after it began is a launch like any other: its job is followed", async () => {
  const runtime = createFakeRuntime({ programOf: () => () => new Promise(() => undefined) });

  const launch = await launchOn({ ...runtime, start: startedWithoutAnswer(runtime) });

  assert.equal(launch.kind, "launched");
  assert.equal((await runtime.inspect(launch.name)).kind, "running");
});

test("a start that left a job without a word keeps its trace, and says that it may have run", async () => {
  const runtime = createFakeRuntime({ programOf: () => async () => 0 });
  const exit = { kind: "lost", because: "its keeper was killed" } as const;

  const launch = await launchOn({
    ...runtime,
    start: startedWithoutAnswer(runtime),
    inspect: async () => ({ kind: "exited", exit }),
  });

  assert.equal(launch.kind === "not_launched" && launch.why.mayHaveRun, true);
  assert.equal((await runtime.list()).length, 1);
});

test("a start that the runtime knows nothing of has not begun", async () => {
  const start = async () => {
    throw new Failure("unavailable", "no answer");
  };

  const launch = await launchOn({
    ...createFakeRuntime({ programOf: () => () => new Promise(() => undefined) }),
    start,
  });

  assert.equal(launch.kind === "not_launched" && launch.why.mayHaveRun, false);
});

test("nothing is told of a failed start before the runtime says what became of it", async () => {
  const runtime = createFakeRuntime({ programOf: () => () => new Promise(() => undefined) });
  let refusals = 1;
  const inspect: JobRuntime["inspect"] = async (name) => {
    if (refusals-- > 0) throw new Failure("unavailable", "no answer");
    return runtime.inspect(name);
  };

  const launch = await launchOn({ ...runtime, start: startedWithoutAnswer(runtime), inspect });

  assert.equal(launch.kind, "launched");
});
