import assert from "node:assert/strict";
import { test } from "node:test";
import { createSystemTimers } from "@exclave/api";
import { Failure } from "@exclave/core";
import type { JobRuntime } from "@exclave/runtime";
import { createFakeRuntime } from "@exclave/runtime/testing";
import type { JobRecord } from "../journal/journal.ts";
import { createMemoryJournal } from "../journal/memory-journal.ts";
import { ACME, job, recordOf } from "../testing/builders.ts";
import { createJobs } from "./jobs.ts";
import { createMemorySpool, type MemorySpool } from "./memory-spool.ts";
import type { OwnInstall } from "./prepare-job.ts";

const GRANT = { registryUrl: "http://vendor.test", credential: "c", expiresAt: 1 };
const SILENT = { debug() {}, info() {}, warn() {}, error() {} };

interface Launched {
  readonly record?: JobRecord;
  readonly own?: OwnInstall;
  readonly spool?: MemorySpool;
}

/** An install whose registry has everything, and a copy of the runner beside it. */
const OWN: OwnInstall = {
  id: ACME,
  name: "acme",
  sandbox: {},
  registry: {
    url: "http://install.test",
    repository: "",
    mountFrom: [],
    token: async () => "t",
    tokenFor: async () => "t",
  },
  holds: async () => true,
  runner: { pin: async () => {}, restore: async () => true },
};

function launchOn(runtime: JobRuntime, { record = recordOf(job()), own, spool }: Launched = {}) {
  const journal = createMemoryJournal({ journalId: "journal" });
  const gate = {
    admit: async () => ({ writes: [], statements: [] }),
    statusOf: async () => assert.fail("nobody looks at a status"),
  };
  const jobs = createJobs({
    runtime,
    spool: spool ?? createMemorySpool(),
    journal,
    place: {
      ...(own && { own }),
      gate,
      journal,
      evaluate: (config) => config,
      origins: () => [GRANT.registryUrl],
    },
    now: () => 1_000,
    timers: createSystemTimers(),
    log: SILENT,
  });
  return jobs.launch(record, { grant: GRANT });
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

test("a runner that is still damaged after it was put back ends the sync as not synced, to be retried", async () => {
  let starts = 0;
  const start = async () => {
    starts++;
    throw new Failure("invalid", "the bytes are others", { details: { isMismatch: true } });
  };
  const runtime = createFakeRuntime({ programOf: () => async () => 0 });
  const step = { component: undefined, type: undefined, materials: [] };

  const launch = await launchOn(
    { ...runtime, start },
    { record: recordOf(job("sync", { operation: "sync", step })), own: OWN },
  );

  assert.equal(launch.kind === "not_launched" && launch.why.code, "not_synced");
  assert.equal(starts, 2);
});

test("the log of a launch begins anew, whatever an earlier life wrote before it crashed", async () => {
  const spool = createMemorySpool();
  const { name } = recordOf(job());
  const earlier = await spool.write(name);
  await earlier.append(Buffer.from("failed: no answer\n"));
  const runtime = createFakeRuntime({ programOf: () => async () => 0 });

  await launchOn(runtime, { spool });

  assert.equal(spool.files.has(name), false);
});
