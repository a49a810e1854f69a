import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { digestOf } from "../encoding/sha256.ts";
import { Instant } from "../ids.ts";
import {
  component,
  deployedAs,
  job,
  kinds,
  materialsOf,
  now,
  plan,
  planOf,
  ref,
  seen,
  syncedFor,
  wanted,
} from "./install.testing.ts";
import { artifactKey } from "./install-state.ts";
import { planInstall } from "./plan-install.ts";

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

  test("brings the release itself, last, and deploys nothing of it before", () => {
    const index = ref("releases/crm", "release-2");
    const api = component("api");
    const request = wanted([api], { index });

    const before = planInstall({ wanted: request, seen: seen({ synced: syncedFor(api) }), now });
    const synced = new Set([...syncedFor(api), artifactKey(index)]);
    const after = planInstall({ wanted: request, seen: seen({ synced }), now });
    const fresh = planInstall({ wanted: request, seen: seen(), now });

    assert.deepEqual(kinds(before.steps), ["sync"]);
    assert.deepEqual(materialsOf(before.steps[0]), ["release"]);
    assert.match(before.holds[0]?.because ?? "", /not in the install's registry yet: its release/);
    assert.deepEqual(kinds(after.steps), ["apply api"]);
    assert.equal(materialsOf(fresh.steps[0]).at(-1), "release");
  });

  test("brings the release that something is still deployed from, when that is missing", () => {
    const [old, index] = [ref("releases/crm", "release-1"), ref("releases/crm", "release-2")];
    const api = component("api");
    const there = { api: { deployed: { ...deployedAs(api), index: old } } };
    const request = wanted([api], { index });
    const synced = new Set([...syncedFor(api), artifactKey(index)]);

    const missing = planInstall({
      wanted: request,
      seen: seen({ synced, components: there }),
      now,
    });
    const whole = new Set([...synced, artifactKey(old)]);
    const settled = planInstall({
      wanted: request,
      seen: seen({ synced: whole, components: there }),
      now,
    });

    assert.deepEqual(materialsOf(missing.steps[0]), ["release"]);
    assert.deepEqual(
      missing.steps[0]?.kind === "sync" && missing.steps[0].materials[0]?.digest,
      old.digest,
    );
    assert.deepEqual(settled.steps, []);
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

describe("without its agent, the plan", () => {
  test("piles nothing up and says since when", () => {
    const agent = { status: "offline", since: Instant.parse(0) } as const;

    assert.deepEqual(plan([component("a"), component("b")], { agent }), {
      steps: [],
      holds: [
        {
          because: "the agent is offline since 1970-01-01T00:00:00.000Z",
          endsWhen: "the agent connects again, or `exclave install setup acme` starts it anew",
          command: "exclave install setup acme",
        },
      ],
    });
  });

  test("waits for setup when there never was one", () => {
    const { holds } = plan([component("a")], { agent: { status: "never" } });

    assert.deepEqual(holds, [
      {
        because: "the install's agent has never connected",
        endsWhen: "the agent connects, or `exclave install setup acme` starts it anew",
        command: "exclave install setup acme",
      },
    ]);
  });

  test("has nothing to wait for when nothing is to be done", () => {
    const agent = { status: "offline", since: Instant.parse(0) } as const;

    assert.deepEqual(plan([], { agent }), { steps: [], holds: [] });
  });
});
