import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { AgentEvent } from "@exclave/api";
import { emptyComponent } from "../install/empty-component.ts";
import type { JobRow } from "../store/rows.ts";
import { ACME, AT, deployedRow, installRow, jobId, jobRow, refNamed } from "../testing/rows.ts";
import { digestNamed } from "../testing/scripted-vendor.ts";
import type { AgentEventFacts } from "./agent-event-writes.ts";
import { applyAgentEvent } from "./apply-agent-event.ts";

const RUNNING = { status: "running", since: AT, cancelRequested: false } as const;

type Ended = Extract<AgentEvent, { type: "job_ended" }>;

function ended(changes: Partial<Ended> = {}): Ended {
  return {
    type: "job_ended",
    job: jobId("a"),
    attempt: 1,
    at: 5,
    outcome: { kind: "succeeded" },
    outputs: [],
    artifacts: [],
    logBytes: 0,
    logSha256: "",
    ...changes,
  };
}

const FAILED = { kind: "failed", code: "tool", message: "exit 1" } as const;

function apply(event: AgentEvent, facts: Partial<AgentEventFacts> = {}) {
  return applyAgentEvent({ event, agent: "agent", audience: ACME, now: AT, ...facts });
}

function inventory(
  open: readonly JobRow[],
  more: Partial<NonNullable<AgentEventFacts["inventory"]>> = {},
): NonNullable<AgentEventFacts["inventory"]> {
  return { open, undelivered: new Set(), components: [], releases: new Map(), ...more };
}

function componentFacts(purpose: JobRow["purpose"], row = emptyComponent(ACME, "api", "command")) {
  const job = jobRow({ component: "api", state: RUNNING, purpose });
  return { job, install: installRow(), component: row };
}

describe("the end of an apply", () => {
  const deployed = deployedRow();
  const attempted = { ...emptyComponent(ACME, "api", "command"), attempted: deployed };

  test("leaves what is deployed, and of its outputs only those that may be seen", () => {
    const facts = componentFacts({ kind: "apply", deployed }, attempted);
    const outputs = [
      { name: "url", sensitive: false, value: "http://x" },
      { name: "password", sensitive: true, value: "leaked by mistake" },
    ];

    const {
      components: [component],
      install,
      wake,
    } = apply(ended({ outputs, outputsDigest: "d" }), facts);

    assert.deepEqual(component?.deployed, deployed);
    assert.equal(component?.attempted, null);
    assert.deepEqual(component?.outputs, { url: "http://x" });
    assert.equal(component?.outputsDigest, "d");
    assert.equal(component?.health, "unknown");
    assert.equal(install?.revision, 4);
    assert.deepEqual(wake, { install: ACME });
  });

  test("that failed keeps what may be there, and spends the plan", () => {
    const plan = {
      digest: digestNamed("p"),
      risk: "change",
      summary: "",
      deployKey: deployed.deployKey,
      at: AT,
    } as const;
    const facts = componentFacts({ kind: "apply", deployed }, { ...attempted, plan });

    const {
      components: [component],
    } = apply(ended({ outcome: FAILED }), facts);

    assert.deepEqual(component?.attempted, deployed);
    assert.equal(component?.deployed, null);
    assert.equal(component?.plan, null);
    assert.deepEqual(component?.lastFailure, {
      code: "tool",
      message: "exit 1",
      at: AT,
      attempts: 1,
      key: deployed.deployKey,
      operation: "apply",
    });
  });

  test("counts failures of the same thing, and starts over for another", () => {
    const last = {
      code: "tool",
      message: "",
      at: AT,
      attempts: 2,
      key: deployed.deployKey,
      operation: "apply",
    } as const;
    const again = componentFacts({ kind: "apply", deployed }, { ...attempted, lastFailure: last });
    const other = componentFacts(
      { kind: "apply", deployed: deployedRow({ deployKey: digestNamed("other") }) },
      { ...attempted, lastFailure: last },
    );

    const attempts = [again, other].map(
      (facts) => apply(ended({ outcome: FAILED }), facts).components[0]?.lastFailure?.attempts,
    );

    assert.deepEqual(attempts, [3, 1]);
  });
});

test("what a job did stays with it", () => {
  const report = { resources: { created: 2 }, changes: [], progress: null };
  const facts = componentFacts({ kind: "apply", deployed: deployedRow() });

  assert.deepEqual(apply(ended({ report }), facts).jobs[0]?.report, report);
});

test("a plan is kept for the key it was made for", () => {
  const facts = componentFacts({ kind: "plan", deployKey: digestNamed("key"), type: "terraform" });
  const plan = { digest: digestNamed("plan"), risk: "change", summary: "1 to add" } as const;

  const {
    components: [component],
  } = apply(ended({ result: { type: "result", ok: true, plan } }), facts);

  assert.deepEqual(component?.plan, { ...plan, deployKey: digestNamed("key"), at: AT });
});

test("a destroyed component is gone, and so is the wish to destroy it", () => {
  const facts = {
    ...componentFacts({ kind: "destroy" }),
    install: installRow({ allowDestroy: ["api", "web"] }),
  };

  const { removedComponent, install } = apply(ended(), facts);

  assert.deepEqual(removedComponent, { install: ACME, name: "api" });
  assert.deepEqual(install?.allowDestroy, ["web"]);
});

test("a look that cannot be taken for want of another's outputs counts like a deploy that cannot", () => {
  const deployed = deployedRow();
  const component = { ...emptyComponent(ACME, "api", "command"), deployed };
  const because = "what db gave out is not kept here any more";
  const seen = { component: "api", health: "unknown", because, at: 5 } as const;
  const job = jobRow({ component: "api", state: RUNNING, purpose: { kind: "request" } });
  const outcome = { kind: "failed", code: "outputs_lost", message: because } as const;

  const facts = { component, install: installRow() };
  const looked = apply({ type: "health", ...seen, code: "outputs_lost" }, facts);
  const asked = apply(ended({ outcome }), { job, ...facts });
  const other = apply({ type: "health", ...seen, code: "timeout" }, facts);

  for (const { components } of [looked, asked]) {
    const [row] = components;
    assert.equal(row?.lastFailure?.code, "outputs_lost");
    assert.equal(row.lastFailure.key, deployed.deployKey);
  }
  assert.equal(other.components[0]?.lastFailure, null);
});

describe("something that was synced and is gone", () => {
  const runner = refNamed("exclave/runner");
  const install = installRow({ runner, synced: [runner, refNamed("apps/crm/api")] });
  const gone = { kind: "failed", code: "not_synced", message: "not there" } as const;

  test("is looked for again after the job that missed it", () => {
    const facts = componentFacts({ kind: "destroy" });

    const after = apply(ended({ outcome: gone }), { ...facts, install });

    assert.deepEqual(after.install?.synced, [runner]);
    assert.equal(after.components[0]?.lastFailure?.code, "not_synced");
    assert.deepEqual(after.wake, { install: ACME });
  });

  test("is looked for again after a look-up that missed it", () => {
    const component = emptyComponent(ACME, "api", "command");
    const seen = { component: "api", health: "unknown", because: "not there", at: 5 } as const;

    const missed = apply({ type: "health", ...seen, code: "not_synced" }, { component, install });
    const other = apply({ type: "health", ...seen, code: "timeout" }, { component, install });

    assert.deepEqual(missed.install?.synced, [runner]);
    assert.deepEqual(other.install?.synced, install.synced);
  });

  test("is looked for again after somebody's request that missed it", () => {
    const job = jobRow({ component: "api", state: RUNNING, purpose: { kind: "request" } });

    assert.deepEqual(apply(ended({ outcome: gone }), { job, install }).install?.synced, [runner]);
  });
});

describe("the end of a build", () => {
  const keys = { buildKey: digestNamed("b"), source: digestNamed("s") };
  const purpose = { kind: "build", name: "api", ...keys } as const;
  const job = jobRow({ state: RUNNING, purpose, writes: ["apps/crm/api"] });
  const made = { type: "artifact" as const, name: "api", ...refNamed("apps/crm/api") };

  test("is what was pushed where the job may push", () => {
    const { build } = apply(ended({ artifacts: [made] }), { job });

    assert.deepEqual(build?.artifact, refNamed("apps/crm/api"));
  });

  test("is nothing that lies elsewhere, whoever names it", () => {
    const foreign = { type: "artifact" as const, name: "x", ...refNamed("apps/other/one") };

    const { build } = apply(ended({ artifacts: [foreign, made] }), { job });
    const none = apply(ended({ artifacts: [foreign] }), { job });

    assert.deepEqual(build?.artifact, refNamed("apps/crm/api"));
    assert.equal(none.build, undefined);
  });
});

describe("the end of a sync", () => {
  const materials = [refNamed("exclave/runner"), refNamed("apps/crm/api")];
  const purpose = { kind: "sync", key: digestNamed("sync"), materials } as const;
  const facts = {
    job: jobRow({ state: RUNNING, purpose: { ...purpose, materials } }),
    install: installRow(),
  };

  test("brings all its materials, the newer runner among them, and puts them on record", () => {
    const cost = { sizeBytes: 2_000, copiedBytes: 1_000, durationMs: 5 };
    const brought = materials.map((ref, at) => ({ name: `material ${at}`, ...ref, ...cost }));
    const artifacts = brought.map((line) => ({ type: "artifact" as const, ...line }));

    const { install, audit } = apply(ended({ artifacts }), facts);

    const record = audit.find(({ action }) => action === "install.synced");
    assert.equal(record?.subject, ACME);
    assert.deepEqual(record?.details["artifacts"], brought);
    assert.deepEqual(install?.synced, materials);
    assert.deepEqual(install?.runner, materials[0]);
  });

  test("that failed half way brings nothing that counts: nobody has checked it", () => {
    const brought = materials[1];
    assert.ok(brought);
    const artifacts = [{ type: "artifact" as const, name: "api", ...brought }];

    const { install, audit } = apply(ended({ outcome: FAILED, artifacts }), facts);

    assert.deepEqual(install?.synced, []);
    assert.equal(install?.syncFailure?.key, purpose.key);
    assert.deepEqual(
      audit.map(({ action }) => action),
      ["job.ended"],
    );
  });

  test("cannot claim what it was not asked to bring", () => {
    const artifacts = [{ type: "artifact" as const, name: "x", ...refNamed("apps/crm/other") }];

    const { install } = apply(ended({ artifacts }), facts);

    assert.deepEqual(install?.synced, materials);
  });
});

describe("the sandbox", () => {
  const runner = refNamed("exclave/runner");

  test("is there after a setup, with the runner in its registry", () => {
    const job = jobRow({ state: RUNNING, purpose: { kind: "setup" }, reads: [runner] });

    const { install } = apply(ended(), { job, install: installRow({ sandboxState: "attempted" }) });

    assert.equal(install?.sandboxState, "present");
    assert.deepEqual(install?.synced, [runner]);
  });

  test("is gone after a teardown, and the record says it is sealed", () => {
    const job = jobRow({ state: RUNNING, purpose: { kind: "teardown" } });

    const { install, audit } = apply(ended(), { job, install: installRow({ mode: "destroyed" }) });

    assert.equal(install?.sandboxState, "destroyed");
    assert.deepEqual(
      audit.map(({ action }) => action),
      ["job.ended", "install.sealed"],
    );
  });
});

describe("events that do not fit", () => {
  test("about a job of somebody else change nothing and are on record", () => {
    const { jobs, audit } = apply(ended(), { job: undefined });

    assert.deepEqual(jobs, []);
    assert.deepEqual(
      audit.map(({ action }) => action),
      ["agent.stray_event"],
    );
  });

  test("a refusal of a job that this server never made is on record with its reason", () => {
    const outcome = { kind: "failed", code: "unreleased", message: "not the plugin" } as const;
    const refused = { type: "job_rejected", job: jobId("a"), attempt: 1, at: 1 } as const;
    for (const [event, code] of [
      [ended({ outcome }), "unreleased"],
      [{ ...refused, code: "signature", because: "nobody signed it" }, "signature"],
    ] as const) {
      const [entry] = apply(event, { job: undefined }).audit;
      assert.equal(entry?.details?.["code"], code);
      assert.ok(entry?.details?.["because"]);
    }
  });

  test("a refusal of an attempt that is over is on record: somebody offered it again", () => {
    const { jobs, audit } = apply(
      {
        type: "job_rejected",
        job: jobId("a"),
        attempt: 1,
        at: 1,
        code: "replayed",
        because: "it ran before",
      },
      { job: apply(ended(), { job: jobRow({ state: RUNNING }) }).jobs[0] },
    );

    assert.deepEqual(jobs, []);
    assert.deepEqual(
      audit.map(({ action, details }) => [action, details?.["code"]]),
      [["agent.stray_event", "replayed"]],
    );
  });

  test("about another attempt change nothing and are on record", () => {
    for (const event of [
      ended({ attempt: 2 }),
      { type: "job_started", job: jobId("a"), attempt: 2, at: 1 } as const,
    ]) {
      const { jobs, audit } = apply(event, { job: jobRow({ state: RUNNING }) });

      assert.deepEqual(jobs, []);
      assert.deepEqual(
        audit.map(({ action }) => action),
        ["agent.stray_event"],
      );
    }
  });

  test("late news of a job that has ended changes nothing", () => {
    const job = jobRow({ state: { status: "succeeded", since: AT } });

    assert.deepEqual(apply(ended({ outcome: FAILED }), { job }).jobs, []);
  });

  test("health of a component that is gone is no news", () => {
    const event = {
      type: "health",
      at: 1,
      component: "api",
      health: "healthy",
      because: "",
    } as const;

    assert.deepEqual(apply(event, { install: installRow() }).components, []);
  });

  test("images from an agent that is not the build agent are not taken", () => {
    const image = { name: "runner", kind: "runner", ...refNamed("exclave/runner") } as const;
    const event = { type: "images_published", at: 1, images: [image] } as const;

    assert.deepEqual(apply({ ...event, images: [image] }).images, []);
    assert.equal(apply({ ...event, images: [image] }, { audience: "build" }).images.length, 1);
  });
});

test("a refusal ends the job as rejected, with the code as its failure", () => {
  const facts = componentFacts({ kind: "apply", deployed: deployedRow() });
  const job = {
    ...facts.job,
    state: { status: "offered", since: AT, cancelRequested: false } as const,
  };
  const event = {
    type: "job_rejected",
    job: job.id,
    attempt: 1,
    at: 1,
    code: "stale_attempt",
    because: "seen",
  } as const;

  const {
    jobs,
    components: [component],
    audit,
  } = apply(event, { ...facts, job });

  assert.equal(jobs[0]?.state.status, "rejected");
  assert.equal(component?.lastFailure?.code, "replayed");
  assert.equal(audit[0]?.action, "job.rejected");
});

test("a refusal of a job that runs here is the end of one whose real end was told to a lost state", () => {
  const purpose = { kind: "apply", deployed: deployedRow() } as const;
  const facts = componentFacts(purpose);
  const job = { ...facts.job, effect: "at-most-once" } as const;
  const because = "attempt 1 was accepted before";

  const {
    jobs: [ended],
    components: [component],
  } = apply(
    { type: "job_rejected", job: job.id, attempt: 1, at: 1, code: "replayed", because },
    { ...facts, job },
  );

  assert.equal(ended?.state.status, "unknown");
  assert.deepEqual([ended?.log, ended?.logComplete], [null, false]);
  assert.equal(component?.lastFailure?.code, "lost");
  assert.equal(component?.lastFailure?.mayRepeat, false);
});

test("after a lost journal, what the agent had and does not know is ended; the rest is left alone", () => {
  const open = [
    jobRow({ id: jobId("a"), state: RUNNING }),
    jobRow({ id: jobId("b"), state: RUNNING }),
    jobRow({ id: jobId("c"), state: { status: "offered", since: AT, cancelRequested: false } }),
  ];
  const jobs = [{ job: jobId("b"), attempt: 1, state: "running" }];

  const result = apply(
    { type: "inventory", at: 1, jobs },
    { inventory: inventory(open, { undelivered: new Set([jobId("c")]) }), install: installRow() },
  );

  assert.deepEqual(
    result.jobs.map(({ id, state }) => [id, state.status]),
    [[jobId("a"), "unknown"]],
  );
});

test("a job whose end was told to a state that is lost is ended, though its agent still has its log", () => {
  const open = [
    jobRow({ id: jobId("a"), state: RUNNING }),
    jobRow({ id: jobId("b"), state: RUNNING }),
    jobRow({ id: jobId("c"), state: { ...RUNNING, status: "offered" } }),
  ];
  const jobs = [
    { job: jobId("a"), attempt: 1, state: "ended" },
    { job: jobId("b"), attempt: 1, state: "running" },
    { job: jobId("c"), attempt: 1, state: "ended" },
  ];

  // The last one was offered once more since the server was set back.
  const result = apply(
    { type: "inventory", at: 1, jobs },
    {
      inventory: inventory(open, { undelivered: new Set([jobId("c")]) }),
      install: installRow(),
    },
  );

  assert.deepEqual(
    result.jobs.map(({ id, state }) => [id, state.status]),
    [
      [jobId("a"), "unknown"],
      [jobId("c"), "unknown"],
    ],
  );
});

test("a setup agent that lost its journal has its setups counted as lost, and their installs woken", () => {
  const open = [
    jobRow({ audience: "setup", operation: "apply", state: RUNNING, purpose: { kind: "setup" } }),
  ];
  const installs = new Map([[ACME, installRow({ sandboxState: "attempted" })]]);

  const after = apply(
    { type: "inventory", at: 1, jobs: [] },
    { audience: "setup", inventory: inventory(open, { installs }) },
  );

  assert.deepEqual(
    after.otherInstalls?.map(({ id, sandboxFailure }) => [id, sandboxFailure?.code]),
    [[ACME, "lost"]],
  );
  assert.deepEqual(after.wake.otherInstalls, [ACME]);
});

test("what the agent destroyed after the backup is no longer taken for deployed", () => {
  const row = { ...emptyComponent(ACME, "api", "command"), deployed: deployedRow() };
  const event: AgentEvent = { type: "inventory", at: 1, jobs: [], destroyed: ["api"] };
  const busy = jobRow({ component: "api", state: RUNNING });
  const jobs = [{ job: busy.id, attempt: 1, state: "running" }];

  const idle = apply(event, {
    install: installRow(),
    inventory: inventory([], { components: [row] }),
  });
  const changing = apply(
    { ...event, jobs },
    { install: installRow(), inventory: inventory([busy], { components: [row] }) },
  );

  assert.deepEqual(idle.components, [emptyComponent(ACME, "api", "command")]);
  assert.ok(idle.audit.some(({ action }) => action === "install.caught_up"));
  assert.deepEqual(changing.components, []);
});

test("an open destroy, and a job that ended unheard, keep nothing that is destroyed", () => {
  const row = { ...emptyComponent(ACME, "api", "command"), deployed: deployedRow() };
  const open = [
    jobRow({ id: jobId("a"), component: "api", operation: "destroy", state: RUNNING }),
    jobRow({ id: jobId("b"), component: "api", operation: "apply", state: RUNNING }),
  ];
  const jobs = [
    { job: jobId("a"), attempt: 1, state: "running" },
    { job: jobId("b"), attempt: 1, state: "ended" },
  ];

  const { components } = apply(
    { type: "inventory", at: 1, jobs, destroyed: ["api"] },
    { install: installRow(), inventory: inventory(open, { components: [row] }) },
  );

  assert.deepEqual(components, [emptyComponent(ACME, "api", "command")]);
});

test("a new agent has applied nothing: what is on record is applied again, or held where it must not be", () => {
  const row = (name: string, apply: "idempotent" | "at-most-once") => ({
    ...emptyComponent(ACME, name, "command"),
    deployed: deployedRow({ effects: { apply } }),
  });
  const components = [
    row("api", "idempotent"),
    row("schema", "at-most-once"),
    emptyComponent(ACME, "planned", "command"),
  ];
  const facts = { install: installRow(), inventory: inventory([], { components }) };
  const event: AgentEvent = { type: "inventory", at: 1, jobs: [] };

  const known = apply(event, facts);
  const fresh = apply({ ...event, isNew: true }, facts);

  assert.deepEqual(known.components, []);
  assert.deepEqual(
    fresh.components.map(({ name, attempted, lastFailure }) => [
      name,
      attempted?.deployKey,
      lastFailure?.operation,
      lastFailure?.mayRepeat,
    ]),
    [
      ["api", deployedRow().deployKey, "apply", undefined],
      ["schema", deployedRow().deployKey, "apply", false],
    ],
  );
  assert.ok(fresh.audit.some(({ action }) => action === "install.caught_up"));
});

test("what the agent applied after the backup can be taken down by the trace of its release", () => {
  const deployed = [
    { component: "api", type: "command", release: "r2", effect: "idempotent" },
  ] as const;
  const trace = deployedRow({ release: "r2" });

  const {
    components: [component],
  } = apply(
    { type: "inventory", at: 1, jobs: [], deployed: [...deployed] },
    { install: installRow(), inventory: inventory([], { traces: new Map([["api", trace]]) }) },
  );

  assert.deepEqual(component?.attempted, trace);
});

test("an open plan of a release does not explain that the agent applied it, an open apply does", () => {
  const fact = { component: "api", type: "command", release: "r2", effect: "fenced" } as const;
  const trace = deployedRow({ release: "r2" });
  const row = emptyComponent(ACME, "api", "command");
  const after = (operation: "plan" | "apply") => {
    const job = jobRow({ component: "api", release: "r2", operation, state: RUNNING });
    const facts = { components: [row], traces: new Map([["api", trace]]) };
    return apply(
      {
        type: "inventory",
        at: 1,
        jobs: [{ job: job.id, attempt: 1, state: "running" }],
        deployed: [fact],
      },
      { install: installRow(), inventory: inventory([job], facts) },
    );
  };

  assert.deepEqual(after("plan").components[0]?.attempted, trace);
  assert.deepEqual(after("apply").components, []);
});

test("a lost journal leaves the components of its jobs held where nothing may run twice", () => {
  const deployed = deployedRow({ effects: { apply: "at-most-once" } });
  const apply1 = {
    component: "api",
    state: RUNNING,
    purpose: { kind: "apply", deployed },
  } as const;
  const row = (name: string) => ({
    ...emptyComponent(ACME, name, "command"),
    attempted: deployed,
  });
  const open = [
    jobRow({ id: jobId("a"), effect: "at-most-once", ...apply1 }),
    jobRow({ id: jobId("b"), ...apply1, component: "web" }),
  ];

  const result = apply(
    { type: "inventory", at: 1, jobs: [] },
    {
      inventory: inventory(open, { components: [row("api"), row("web"), row("docs")] }),
      install: installRow(),
    },
  );

  assert.deepEqual(
    result.components.map(({ name, lastFailure }) => [
      name,
      lastFailure?.code,
      lastFailure?.mayRepeat,
    ]),
    [
      ["api", "lost", false],
      ["web", "lost", undefined],
    ],
  );
});
