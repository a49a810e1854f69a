import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Instant, JobId } from "../ids.ts";
import { digestOf } from "../sha256.ts";
import { deployKey } from "./deploy-key.ts";
import {
  component,
  deployedAs,
  named,
  now,
  ref,
  type SeenSketch,
  seen,
  syncedFor,
  wanted,
} from "./install.testing.ts";
import {
  artifactKey,
  type LastFailure,
  type SeenComponent,
  type WantedComponent,
} from "./install-state.ts";
import { type InstallPlan, planInstall, type Step } from "./plan-install.ts";

const job = JobId.parse("jabcdefghijklmnop");
const later = (ms: number) => Instant.parse(now + ms);

describe("the plan for an install", () => {
  test("brings what is missing first, all of it in one sync", () => {
    const [database, api] = [component("database"), component("api", { needs: ["database"] })];

    const { steps, holds } = plan([database, api]);

    assert.equal(steps.length, 1);
    assert.deepEqual(materialsOf(steps[0]), ["runner", "plugin command", "database", "api"]);
    assert.deepEqual(
      holds.map(({ component: name }) => name),
      ["database", "api"],
    );
  });

  test("brings the same bytes into every repository that needs them", () => {
    const twin = { ...component("b"), artifact: ref("apps/crm/b", "a-1") };

    const { steps } = plan([component("a"), twin], { synced: syncedFor(component("a")) });

    assert.deepEqual(materialsOf(steps[0]), ["b"]);
  });

  test("lets the runner that is there bring the newer one", () => {
    const old = ref("exclave/runner", "runner-0");

    const { steps } = plan([component("a")], { runner: old, synced: new Set([artifactKey(old)]) });

    assert.deepEqual(steps[0]?.kind === "sync" && steps[0].runner, old);
  });

  test("does not start a second sync, and says what it waits for", () => {
    const { steps, holds } = plan([component("a")], { activeSync: { job, state: "running" } });

    assert.deepEqual(steps, []);
    assert.deepEqual(holds, [
      { because: `sync job ${job} is running`, endsWhen: "the sync ends" },
      {
        component: "a",
        because: "not in the install's registry yet: the runner, its plugin, its artifact",
        endsWhen: "the sync has brought it",
      },
    ]);
  });

  test("deploys independent components side by side and holds what depends on them", () => {
    const parts = [
      component("db"),
      component("cache"),
      component("api", { needs: ["db", "cache"] }),
    ];

    const { steps, holds } = plan(parts, { synced: syncedFor(...parts) });

    assert.deepEqual(kinds(steps), ["apply db", "apply cache"]);
    assert.deepEqual(holds, [
      {
        component: "api",
        because: "it needs db, which is not deployed as wanted yet",
        endsWhen: "db is deployed",
      },
    ]);
  });

  test("plans what can be planned, and applies exactly that plan", () => {
    const db = component("db", { plannable: true });
    const synced = syncedFor(db);
    const made = planOf(db);

    assert.deepEqual(kinds(plan([db], { synced }).steps), ["plan db"]);
    const { steps } = plan([db], { synced, components: { db: { plan: made } } });

    assert.deepEqual(kinds(steps), ["apply db"]);
    assert.equal(steps[0]?.kind === "apply" && steps[0].plan, made.digest);
  });

  test("does not apply a plan that was made for something else", () => {
    const db = component("db", { plannable: true });
    const stale = { ...planOf(db), deployKey: digestOf("other") };

    const { steps } = plan([db], { synced: syncedFor(db), components: { db: { plan: stale } } });

    assert.deepEqual(kinds(steps), ["plan db"]);
  });

  test("plans anew after an apply failed, because its plan is used up", () => {
    const db = component("db", { plannable: true });
    const failure = failed(db, { at: Instant.parse(now - 60_000) });
    const there = {
      plan: { ...planOf(db), at: Instant.parse(now - 70_000) },
      lastFailure: failure,
    };

    const { steps } = plan([db], { synced: syncedFor(db), components: { db: there } });

    assert.deepEqual(kinds(steps), ["plan db"]);
  });

  test("waits for consent where the policy asks for it, and only for that plan", () => {
    const db = component("db", { plannable: true });
    const made = { ...planOf(db), risk: "destroy", summary: "1 to destroy" } as const;
    const request = {
      wanted: wanted([db]),
      seen: seen({ synced: syncedFor(db), components: { db: { plan: made } } }),
      now,
    };
    const needsConsent = new Set(["destroy"] as const);

    const held = planInstall({ ...request, policy: { needsConsent, consented: new Set() } });
    const agreed = planInstall({
      ...request,
      policy: { needsConsent, consented: new Set([made.digest]) },
    });

    assert.deepEqual(held.holds, [
      {
        component: "db",
        because: "its plan (destroy) waits for consent: 1 to destroy",
        endsWhen: `somebody agrees to plan ${made.digest}`,
      },
    ]);
    assert.deepEqual(kinds(agreed.steps), ["apply db"]);
  });

  test("is empty when everything is there as wanted", () => {
    const db = component("db");

    const done = plan([db], {
      synced: syncedFor(db),
      components: { db: { deployed: deployedAs(db) } },
    });

    assert.deepEqual(done, { steps: [], holds: [] });
  });

  test("redeploys only what changed", () => {
    const [db, api] = [component("db"), component("api", { version: "2", needs: ["db"] })];
    const components = {
      db: { deployed: deployedAs(db) },
      api: { deployed: deployedAs(component("api", { needs: ["db"] })) },
    };

    const { steps } = plan([db, api], { synced: syncedFor(db, api), components });

    assert.deepEqual(kinds(steps), ["apply api"]);
    assert.match(steps[0]?.because ?? "", /its artifact changed, replaces sha256:/);
  });

  test("redeploys what uses an output that changed, and not what merely comes after", () => {
    const db = component("db");
    const [reads, after] = [
      component("reads", { reads: ["db"] }),
      component("after", { needs: ["db"] }),
    ];
    const before = { db: { deployed: deployedAs(db, {}, "old url") } };
    const components = {
      db: { deployed: deployedAs(db, {}, "new url") },
      reads: { deployed: deployedAs(reads, before) },
      after: { deployed: deployedAs(after, before) },
    };

    const { steps } = plan([db, reads, after], { synced: syncedFor(db, reads, after), components });

    assert.deepEqual(kinds(steps), ["apply reads"]);
    assert.equal(steps[0]?.because, "its configuration, or a value it uses, changed");
  });

  test("applies again what a failed apply may have left half-done, also when the wish went back", () => {
    const db = component("db");
    const half = deployedAs(component("db", { version: "2" }));
    const components = { db: { deployed: deployedAs(db), attempted: half } };

    const { steps } = plan([db], { synced: syncedFor(db), components });

    assert.deepEqual(kinds(steps), ["apply db"]);
    assert.equal(steps[0]?.because, "the last apply did not finish");
  });

  test("leaves a component alone while a job is at work on it", () => {
    const db = component("db");
    const activeJob = { job, operation: "apply", state: "running" } as const;

    const { steps, holds } = plan([db], {
      synced: syncedFor(db),
      components: { db: { activeJob } },
    });

    assert.deepEqual(steps, []);
    assert.deepEqual(holds, [
      { component: "db", because: `apply job ${job} is running`, endsWhen: "the job ends" },
    ]);
  });
});

describe("after a failure, the plan", () => {
  const db = component("db");
  const api = component("api", { needs: ["db"] });
  const docs = component("docs");
  const synced = syncedFor(db, api, docs);

  test("waits, then tries again, when trying again can help", () => {
    const lastFailure = failed(db, { code: "unavailable", message: "no route", attempts: 3 });
    const components = { db: { lastFailure } };

    const early = plan([db], { synced, components });
    const due = plan([db], { synced, components }, { now: later(8_000) });

    assert.deepEqual(early.steps, []);
    assert.deepEqual(early.holds, [
      {
        component: "db",
        because: "apply failed (unavailable): no route",
        endsWhen: `it is tried again at ${new Date(now + 8_000).toISOString()}`,
        until: now + 8_000,
      },
    ]);
    assert.deepEqual(kinds(due.steps), ["apply db"]);
  });

  test("holds when trying again cannot help, until what is deployed changes", () => {
    const components = { db: { lastFailure: failed(db, { code: "plugin" }) } };
    const fixed = component("db", { version: "2" });

    const held = plan([db], { synced, components }, { now: later(3_600_000) });
    const changed = plan([fixed], { synced: syncedFor(fixed), components });

    assert.match(held.holds[0]?.because ?? "", /apply failed \(plugin\): exit 1; trying the same/);
    assert.match(held.holds[0]?.endsWhen ?? "", /exclave install deploy acme/);
    assert.deepEqual(held.steps, []);
    assert.deepEqual(kinds(changed.steps), ["apply db"]);
  });

  test("blocks what depends on it and nobody else, with the reason", () => {
    const components = { db: { lastFailure: failed(db, { code: "plugin" }) } };

    const { steps, holds } = plan([db, api, docs], { synced, components });

    assert.deepEqual(kinds(steps), ["apply docs"]);
    assert.deepEqual(holds.at(-1), {
      component: "api",
      because: "it needs db, whose apply failed (plugin): exit 1",
      endsWhen: "db is deployed",
    });
  });

  test("holds a sync that cannot help, until other things are wanted", () => {
    const first = plan([db]).steps[0];
    const key = first?.kind === "sync" ? first.key : undefined;
    const syncFailure = { code: "disk_full", message: "no room", at: now, attempts: 1 } as const;
    const state: SeenSketch = { syncFailure: key ? { ...syncFailure, key } : syncFailure };

    assert.deepEqual(plan([db], state).steps, []);
    assert.match(
      plan([db], state).holds[0]?.because ?? "",
      /the sync failed \(disk_full\): no room/,
    );
    assert.deepEqual(kinds(plan([db, docs], state).steps), ["sync"]);
  });

  test("tries a sync again when its time has come", () => {
    const syncFailure = { code: "unavailable", message: "no route", at: now, attempts: 1 } as const;

    assert.equal(plan([db], { syncFailure }).holds[0]?.until, now + 2_000);
    assert.deepEqual(kinds(plan([db], { syncFailure }, { now: later(2_000) }).steps), ["sync"]);
  });
});

describe("for what is no longer wanted, the plan", () => {
  const db = component("db");
  const api = component("api", { needs: ["db"] });
  const synced = syncedFor(db, api);
  const both: Record<string, SeenComponent> = {
    db: { deployed: deployedAs(db) },
    api: { deployed: deployedAs(api) },
  };

  test("destroys nothing without a wish, and says how to wish it", () => {
    const { steps, holds } = plan([db], { synced, components: both });

    assert.deepEqual(steps, []);
    assert.deepEqual(holds, [
      {
        component: "api",
        because: "it is deployed and no longer wanted, and nobody said that it may be destroyed",
        endsWhen: "`exclave install deploy acme --allow-destroy api` says so",
      },
    ]);
  });

  test("destroys in reverse order once it is wished", () => {
    const allowDestroy = new Set([named("api"), named("db")]);
    const request = wanted([], { allowDestroy });

    const first = planInstall({ wanted: request, seen: seen({ synced, components: both }), now });
    const rest = seen({ synced, components: { db: both["db"] ?? {} } });

    assert.deepEqual(kinds(first.steps), ["destroy api"]);
    assert.deepEqual(first.holds, [
      { component: "db", because: "api is still deployed on it", endsWhen: "api is destroyed" },
    ]);
    assert.deepEqual(kinds(planInstall({ wanted: request, seen: rest, now }).steps), [
      "destroy db",
    ]);
  });

  test("keeps what a wanted component depends on, whatever was wished", () => {
    const request = wanted([api], { allowDestroy: new Set([named("db")]) });

    const { steps, holds } = planInstall({
      wanted: request,
      seen: seen({ synced, components: both }),
      now,
    });

    assert.deepEqual(steps, []);
    assert.equal(holds.find(({ component: name }) => name === "db")?.because, "api depends on it");
  });

  test("lets go of what was needed once its user is deployed without it", () => {
    const free = component("api", { version: "2" });
    const request = wanted([free], { allowDestroy: new Set([named("db")]) });
    const state = { synced: new Set([...synced, ...syncedFor(free)]), components: both };

    const first = planInstall({ wanted: request, seen: seen(state), now });
    const components = { ...both, api: { deployed: deployedAs(free) } };
    const second = planInstall({ wanted: request, seen: seen({ ...state, components }), now });

    assert.deepEqual(kinds(first.steps), ["apply api"]);
    assert.equal(first.holds[0]?.endsWhen, "api is deployed without it");
    assert.deepEqual(kinds(second.steps), ["destroy db"]);
  });

  test("does not wait for a redeploy that a dropped dependsOn alone will never cause", () => {
    const free = component("api");
    const request = wanted([free], { allowDestroy: new Set([named("db")]) });

    const { steps } = planInstall({
      wanted: request,
      seen: seen({ synced, components: both }),
      now,
    });

    assert.deepEqual(kinds(steps), ["destroy db"]);
  });

  test("takes everything down when the install is to go, what never finished included", () => {
    const components = { db: { attempted: deployedAs(db) }, api: both["api"] ?? {} };
    const request = wanted([db, api], { mode: "destroyed" });

    const { steps } = planInstall({ wanted: request, seen: seen({ synced, components }), now });
    const last = planInstall({
      wanted: request,
      seen: seen({ synced, components: { db: components.db } }),
      now,
    });

    assert.deepEqual(kinds(steps), ["destroy api"]);
    assert.deepEqual(kinds(last.steps), ["destroy db"]);
    assert.deepEqual(planInstall({ wanted: request, seen: seen({ synced }), now }), {
      steps: [],
      holds: [],
    });
  });

  test("destroys a component of another type before it deploys the new one, if that was wished", () => {
    const service = component("api", { type: "service" });
    const state = {
      synced: new Set([...synced, ...syncedFor(service)]),
      components: { api: both["api"] ?? {} },
    };
    const request = wanted([service], { allowDestroy: new Set([named("api")]) });

    const { steps } = planInstall({ wanted: request, seen: seen(state), now });

    assert.deepEqual(kinds(steps), ["destroy api"]);
    assert.equal(steps[0]?.kind === "destroy" && steps[0].type, "command");
    const held = plan([service], state);
    assert.match(held.holds[0]?.because ?? "", /its type changed from command to service/);
    assert.deepEqual(held.steps, []);
  });

  test("brings the plugin back that a destroy needs", () => {
    const components = { api: both["api"] ?? {} };
    const request = wanted([], { mode: "destroyed" });

    const { steps, holds } = planInstall({ wanted: request, seen: seen({ components }), now });

    assert.deepEqual(materialsOf(steps[0]), ["plugin command", "api"]);
    assert.equal(holds[0]?.endsWhen, "the sync has brought it");
  });
});

describe("without its agent, the plan", () => {
  test("piles nothing up and says since when", () => {
    const agent = { status: "offline", since: Instant.parse(0) } as const;

    assert.deepEqual(plan([component("a"), component("b")], { agent }), {
      steps: [],
      holds: [
        {
          because: "the agent is offline since 1970-01-01T00:00:00.000Z",
          endsWhen: "the agent connects again",
        },
      ],
    });
  });

  test("waits for setup when there never was one", () => {
    const { holds } = plan([component("a")], { agent: { status: "never" } });

    assert.deepEqual(holds, [
      {
        because: "the install's agent has never connected",
        endsWhen: "setup has started the agent and it connects",
      },
    ]);
  });

  test("has nothing to wait for when nothing is to be done", () => {
    const agent = { status: "offline", since: Instant.parse(0) } as const;

    assert.deepEqual(plan([], { agent }), { steps: [], holds: [] });
  });
});

function plan(
  components: WantedComponent[],
  state: SeenSketch = {},
  changes: { now?: Instant } = {},
): InstallPlan {
  return planInstall({ wanted: wanted(components), seen: seen(state), now, ...changes });
}

function kinds(steps: readonly Step[]): string[] {
  return steps.map((step) => (step.kind === "sync" ? "sync" : `${step.kind} ${step.component}`));
}

function materialsOf(step: Step | undefined): string[] {
  assert.equal(step?.kind, "sync");
  return step.kind === "sync" ? step.materials.map(({ name }) => name) : [];
}

function planOf(want: WantedComponent) {
  const key = deployKey(want, new Map());
  return {
    deployKey: key,
    digest: digestOf("plan"),
    risk: "change",
    summary: "1 to add",
    at: now,
  } as const;
}

function failed(want: WantedComponent, changes: Partial<LastFailure> = {}): LastFailure {
  const key = deployKey(want, new Map());
  const failure = { operation: "apply", code: "tool", message: "exit 1", attempts: 1 } as const;
  return { ...failure, deployKey: key, at: now, ...changes };
}
