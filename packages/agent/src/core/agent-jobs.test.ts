import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { AgentEvent } from "@exclave/api";
import { jobName, type Manifest } from "@exclave/core";
import type { JobRun } from "@exclave/runtime";
import type { JobRecord } from "../journal/journal.ts";
import { createMemoryJournal } from "../journal/memory-journal.ts";
import {
  ACME,
  createDirector,
  type Director,
  GLOBEX,
  job,
  jobId,
  NOW,
  recordOf,
} from "../testing/builders.ts";
import { agentWith, emptyJournal, kinds, nameOf, SUCCEEDED } from "../testing/core-agent.ts";
import { NOTHING_SAID } from "./agent-job-end.ts";
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
    "a fourth resume is not (L-3.1)": {
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

  for (const [effect, mayHaveRun, outcome] of [
    ["at-most-once", true, "unknown"],
    ["at-most-once", false, "failed"],
    ["fenced", true, "failed"],
  ] as const) {
    const begun = mayHaveRun ? "may have begun" : "did not begin";
    test(`a launch of a ${effect} job that failed and ${begun} is ${outcome}`, () => {
      const journal = emptyJournal();
      const kept = recordOf(job("job", { step: { effect } }));
      journal.commit([{ kind: "job", record: kept }]);
      const agent = agentWith({ journal });
      agent.feed({ kind: "restored", found: [], fresh: false });
      const said = { code: "unavailable", message: "no answer", ...NOTHING_SAID } as const;

      agent.feed({ kind: "not_launched", name: kept.name, why: { ...said, mayHaveRun } });

      const event = agent.told().at(-1);
      assert.equal(event?.type === "job_ended" && event.outcome.kind, outcome);
    });
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

    agent.command(agent.director.cancel(queued.id));
    const event = agent.told().at(-1);
    assert.ok(event?.type === "job_ended" && event.outcome.kind === "cancelled");

    const effects = agent.command(agent.director.cancel(running.id, { graceMs: 45_000 }));
    assert.ok(kinds(effects).includes("stop"));
    assert.equal(agent.journal.load().jobs[0]?.cancelGraceMs, 45_000);
  });

  test("a job that changes something has 30 seconds to stop, however few were asked for", () => {
    const agent = agentWith();
    agent.welcome();
    const [apply, exec] = [job("apply"), job("exec", { operation: "exec" })];
    for (const one of [apply, exec]) agent.run(one);

    const graces = [apply, exec].map(({ id }) => {
      const effects = agent.command(agent.director.cancel(id, { graceMs: 0 }));
      const stop = effects.find((effect) => effect.kind === "stop");
      return stop?.kind === "stop" && stop.graceMs;
    });

    assert.deepEqual(graces, [30_000, 10_000]);
  });

  const CANCEL_LIES = {
    unsigned: ["cancel_signature", () => ({ envelope: undefined, graceMs: 0 })],
    forged: ["cancel_signature", (id: string) => createDirector().cancel(id)],
    "for another install": [
      "cancel_wrong_install",
      (id: string, by: Director) => by.cancel(id, { audience: GLOBEX }),
    ],
    "for another job": ["cancel_invalid", (_: string, by: Director) => by.cancel(jobId("other"))],
    "out of date": [
      "cancel_expired",
      (id: string, by: Director) => by.cancel(id, { issuedAt: 1, notAfter: 2 }),
    ],
  } as const;
  for (const [lie, [code, tell]] of Object.entries(CANCEL_LIES)) {
    test(`a cancel that is ${lie} stops nothing and raises an alarm`, () => {
      const agent = agentWith();
      agent.welcome();
      const running = job("running");
      agent.run(running);

      const { envelope } = tell(running.id, agent.director);
      const effects = agent.command({ type: "job_cancel", job: running.id, attempt: 1, envelope });

      assert.ok(!kinds(effects).includes("stop"));
      assert.equal(agent.journal.load().jobs[0]?.cancelGraceMs, undefined);
      const alarm = agent.told().at(-1);
      assert.equal(alarm?.type === "alarm" && alarm.code, code);
    });
  }

  test("the same cancel once more is a replay; another one of the same job changes nothing", () => {
    const agent = agentWith();
    agent.welcome();
    const running = job("running");
    agent.run(running);
    const cancel = agent.director.cancel(running.id);
    agent.command(cancel);
    const before = agent.told().length;

    agent.command(agent.director.cancel(running.id, { issuedAt: NOW + 1 }));
    assert.equal(agent.told().length, before);
    const effects = agent.command(cancel);

    assert.ok(!kinds(effects).includes("stop"));
    const alarm = agent.told().at(-1);
    assert.equal(alarm?.type === "alarm" && alarm.code, "cancel_replayed");
  });

  test("people who look on wait for each other and never hold a deploy back", () => {
    const agent = agentWith({ rules: { jobsMax: 1, debugJobsMax: 2 } });
    agent.welcome();
    const launched = (operation: "logs" | "exec" | "status" | "apply", name: string) =>
      kinds(agent.offer(job(name, { operation, step: { component: name as never } }))).includes(
        "launch",
      );

    assert.deepEqual(
      [launched("logs", "a"), launched("exec", "b"), launched("status", "c")],
      [true, true, false],
    );
    assert.deepEqual([launched("apply", "d"), launched("apply", "e")], [true, false]);
  });

  test("one job at a time changes a component, whatever a server has forgotten", () => {
    const agent = agentWith();
    agent.welcome();
    const running = job("first", { operation: "destroy" });
    agent.run(running);

    const same = agent.offer(job("second", { operation: "apply" }));
    const other = agent.offer(job("third", { step: { component: "web" as never } }));
    const looking = agent.offer(job("fourth", { operation: "exec" }));
    const after = agent.feed({ kind: "exited", name: nameOf(running), ended: SUCCEEDED });

    const launches = [same, other, looking, after].map((effects) =>
      effects.flatMap((effect) => (effect.kind === "launch" ? [effect.record.manifest.id] : [])),
    );
    assert.deepEqual(launches, [[], [jobId("third")], [jobId("fourth")], [jobId("second")]]);
  });

  test("setups of several installs run side by side, two of one install do not", () => {
    const setup = (name: string, id: string) =>
      job(name, {
        audience: "setup",
        install: { id: id as never, name: id as never },
        step: { component: "sandbox" as never },
      });
    const setups = [setup("a", ACME), setup("b", GLOBEX), setup("c", ACME)];
    const waiting = [...setups];
    const judge = () =>
      ({ kind: "ok", manifest: waiting.shift() as Manifest, payload: new Uint8Array() }) as const;
    const agent = agentWith({ rules: { kind: "setup", judge } });
    agent.welcome();

    const asked = setups.map((made) =>
      agent
        .offer(made)
        .some((effect) => effect.kind === "send" && effect.frame.type === "grant_want"),
    );

    assert.deepEqual(asked, [true, true, false]);
  });

  test("a wish to cancel what nobody knows is answered, so that no job stays open for ever", () => {
    const agent = agentWith();
    agent.welcome();

    const job = jobId("gone");
    const effects = agent.command(agent.director.cancel(job));

    assert.ok(kinds(effects).includes("remove"));
    const event = agent.told().at(-1);
    assert.ok(event?.type === "job_ended" && event.outcome.kind === "unknown");
  });
});
