import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { AgentEvent } from "@exclave/api";
import { jobName } from "@exclave/core";
import type { JobRun } from "@exclave/runtime";
import type { JobRecord } from "../journal/journal.ts";
import { createMemoryJournal } from "../journal/memory-journal.ts";
import { job, jobId, recordOf } from "../testing/builders.ts";
import { agentWith, emptyJournal, kinds, nameOf, SUCCEEDED } from "../testing/core-agent.ts";
import type { AgentEffect } from "./agent-state.ts";

describe("after a crash", () => {
  interface Found {
    readonly record: Partial<JobRecord>;
    readonly effect?: "fenced" | "idempotent" | "at-most-once";
    readonly run: JobRun;
    readonly follows: string;
  }
  const absent = { kind: "absent" } as const;
  const waiting = { kind: "waiting", because: "no keeper yet" } as const;
  const exited = { kind: "exited", exit: { kind: "code", code: 0 } } as const;
  // What was journaled, what the runtime says, and what follows.
  const cases: Record<string, Found> = {
    "a running job is found again": {
      record: { status: "running", launches: 1 },
      run: { kind: "running" },
      follows: "follow",
    },
    "a job that ended meanwhile is read to its end": {
      record: { status: "running", launches: 1 },
      run: exited,
      follows: "follow",
    },
    "a launch that happened is found": {
      record: { status: "launching", launches: 1 },
      run: { kind: "running" },
      follows: "follow",
    },
    "a launch that did not happen is done": {
      record: { status: "launching", launches: 1 },
      run: absent,
      follows: "launch",
    },
    "a launch that got half-way is completed": {
      record: { status: "launching", launches: 1 },
      run: waiting,
      follows: "launch",
    },
    "an at-most-once job half-way launched is completed": {
      record: { status: "launching", launches: 1 },
      effect: "at-most-once",
      run: waiting,
      follows: "launch",
    },
    "an at-most-once job that left no trace is not run again": {
      record: { status: "launching", launches: 1 },
      effect: "at-most-once",
      run: absent,
      follows: "unknown",
    },
    "an at-most-once job that ran and is gone is unknown": {
      record: { status: "running", launches: 1 },
      effect: "at-most-once",
      run: absent,
      follows: "unknown",
    },
    "a job that ran and is gone is lost": {
      record: { status: "running", launches: 1 },
      run: absent,
      follows: "lost",
    },
    "a job nobody launched yet and nobody wants is cancelled": {
      record: { status: "launching", launches: 1, cancelGraceMs: 1 },
      run: absent,
      follows: "cancelled",
    },
    "a third resume is made": {
      record: { status: "launching", launches: 3 },
      run: absent,
      follows: "launch",
    },
    "a fourth resume is not": {
      record: { status: "launching", launches: 4 },
      run: absent,
      follows: "poisoned",
    },
  };

  for (const [title, { record, effect = "fenced", run, follows }] of Object.entries(cases)) {
    test(title, () => {
      const journal = emptyJournal();
      const kept = recordOf(job("job", { step: { effect } }), record);
      journal.commit([{ kind: "job", record: kept }]);
      const agent = agentWith({ journal });
      const restored = agent.feed({ kind: "restored", found: [kept.name], fresh: false });
      assert.deepEqual(kinds(restored), ["inspect"], "it looks before it does anything");

      const effects = agent.feed({ kind: "inspected", name: kept.name, run });

      assert.equal(followed(effects, agent.told()), follows);
    });
  }

  function followed(effects: readonly AgentEffect[], told: readonly AgentEvent[]): string {
    const act = kinds(effects).find((kind) => kind === "follow" || kind === "launch");
    if (act) return act;
    const event = told.at(-1);
    if (event?.type !== "job_ended") return "nothing";
    return event.outcome.kind === "failed" ? event.outcome.code : event.outcome.kind;
  }

  test("a job that was accepted and not launched is launched", () => {
    const journal = emptyJournal();
    journal.commit([{ kind: "job", record: recordOf(job()) }]);
    const agent = agentWith({ journal });

    const effects = agent.feed({ kind: "restored", found: [], fresh: false });

    assert.deepEqual(kinds(effects), ["journal", "launch"]);
  });

  test("a wish to cancel that was journaled is carried out", () => {
    const journal = emptyJournal();
    const record = recordOf(job(), { status: "running", launches: 1, cancelGraceMs: 50 });
    journal.commit([{ kind: "job", record }]);
    const agent = agentWith({ journal });
    agent.feed({ kind: "restored", found: [record.name], fresh: false });

    const effects = agent.feed({ kind: "inspected", name: record.name, run: { kind: "running" } });

    assert.deepEqual(kinds(effects), ["follow", "stop"]);
  });

  test("what an intact journal does not know is cleared away", () => {
    const agent = agentWith();
    const leftover = jobName("s-api-1", 1);

    const effects = agent.feed({ kind: "restored", found: [leftover], fresh: false });

    assert.deepEqual(effects, [{ kind: "remove", name: leftover }]);
  });

  test("a lost journal presumes nothing: what is there is reported and left alone", () => {
    const journal = createMemoryJournal({ journalId: "new" });
    const agent = agentWith({ journal });
    const found = nameOf(job("found"));

    const effects = agent.feed({ kind: "restored", found: [found], fresh: true });

    assert.ok(!kinds(effects).includes("remove"));
    const [event] = agent.told();
    assert.ok(event?.type === "inventory");
    assert.deepEqual(event.jobs, [{ job: jobId("found"), attempt: 1, state: "unknown" }]);
    const later = agent.restart().feed({ kind: "restored", found: [found], fresh: false });
    assert.ok(!kinds(later).includes("remove"), "and the next start remembers it");
  });
});

describe("the end of a job", () => {
  test("is journaled together with what follows from it", () => {
    const agent = agentWith();
    agent.welcome();
    const manifest = job("apply", { statusEveryMs: 5_000 });
    agent.run(manifest);
    const outputs = [
      { name: "url", value: "http://x", sensitive: false },
      { name: "password", value: "hunter22", sensitive: true },
    ];

    const effects = agent.feed({
      kind: "exited",
      name: nameOf(manifest),
      ended: { ...SUCCEEDED, outputs, outputsDigest: "d" },
    });

    const commits = effects.filter(({ kind }) => kind === "journal");
    assert.equal(commits.length, 1, "one commit");
    assert.deepEqual([...agent.journal.outputs()], [["api", outputs]]);
    assert.equal(agent.journal.load().schedule[0]?.component, "api");
    const event = agent.told().at(-1);
    assert.ok(event?.type === "job_ended");
    assert.deepEqual(event.outputs, [
      { name: "url", sensitive: false, value: "http://x" },
      { name: "password", sensitive: true },
    ]);
  });

  test("a job leaves the runtime when its end is acknowledged, and the journal when its log is", () => {
    const agent = agentWith();
    agent.welcome();
    const manifest = job();
    const name = nameOf(manifest);
    agent.run(manifest);
    agent.feed({ kind: "exited", name, ended: { ...SUCCEEDED, logBytes: 10 } });

    const acked = agent.frame({ type: "ack", seq: agent.state.upHead });
    assert.ok(kinds(acked).includes("remove"));
    assert.equal(agent.journal.load().jobs.length, 1);

    const logged = agent.frame({ type: "log_ack", job: manifest.id, attempt: 1, upTo: 10 });
    assert.ok(kinds(logged).includes("drop_spool"));
    assert.equal(agent.journal.load().jobs.length, 0);
  });

  test("a cancelled job that did not start ends at once; one that runs is stopped", () => {
    const agent = agentWith({ rules: { jobsMax: 1 } });
    agent.welcome();
    const running = job("running");
    const queued = job("queued");
    agent.run(running);
    agent.offer(queued);

    agent.command({ type: "job_cancel", job: queued.id, attempt: 1, graceMs: 10 });
    const event = agent.told().at(-1);
    assert.ok(event?.type === "job_ended" && event.outcome.kind === "cancelled");

    const effects = agent.command({ type: "job_cancel", job: running.id, attempt: 1, graceMs: 10 });
    assert.ok(kinds(effects).includes("stop"));
    assert.equal(agent.journal.load().jobs[0]?.cancelGraceMs, 10);
  });

  test("a wish to cancel what nobody knows is answered, so that no job stays open for ever", () => {
    const agent = agentWith();
    agent.welcome();

    const job = jobId("gone");
    const effects = agent.command({ type: "job_cancel", job, attempt: 1, graceMs: 0 });

    assert.ok(kinds(effects).includes("remove"));
    const event = agent.told().at(-1);
    assert.ok(event?.type === "job_ended" && event.outcome.kind === "unknown");
  });
});
