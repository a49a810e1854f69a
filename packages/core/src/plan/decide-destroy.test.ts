import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Instant } from "../ids.ts";
import {
  component,
  deployedAs,
  kinds,
  materialsOf,
  named,
  now,
  plan,
  ref,
  seen,
  syncedFor,
  wanted,
} from "./install.testing.ts";
import { artifactKey, type Seen, type SeenComponent } from "./install-state.ts";
import { planInstall } from "./plan-install.ts";

describe("for what is no longer wanted, the plan", () => {
  const db = component("db");
  const api = component("api", { needs: ["db"] });
  const synced = syncedFor(db, api);
  const both: Record<string, SeenComponent> = {
    db: { deployed: deployedAs(db) },
    api: { deployed: deployedAs(api) },
  };

  /** What the last destroy met: something of it is not in the install's registry. */
  const lastFailure = {
    operation: "destroy",
    code: "not_synced",
    message: "its plugin is not there",
    at: Instant.parse(0),
    attempts: 1,
  } as const;

  test("brings the release it came from where a destroy met that it is missing", () => {
    const index = ref("releases/crm", "release-1");
    const there = { api: { deployed: { ...deployedAs(api), index }, lastFailure } };
    const request = wanted([], { allowDestroy: new Set([named("api")]) });
    const at = (keys: Seen["synced"]) =>
      planInstall({ wanted: request, seen: seen({ synced: keys, components: there }), now });

    const before = at(synced);
    const after = at(new Set([...synced, artifactKey(index)]));

    assert.deepEqual(materialsOf(before.steps[0]), ["release"]);
    assert.deepEqual(kinds(after.steps), ["destroy api"]);
  });

  test("a destroy that was refused as a way back is asked for again: no release would help", () => {
    const refused = { ...lastFailure, code: "downgrade" } as const;
    const there = { api: { deployed: deployedAs(api), lastFailure: refused } };
    const request = wanted([], { mode: "destroyed" });

    const { holds } = planInstall({ wanted: request, seen: seen({ components: there }), now });

    assert.match(holds[0]?.endsWhen ?? "", /^`exclave install destroy acme`/);
  });

  test("destroys nothing without a wish, and says how to wish it", () => {
    const { steps, holds } = plan([db], { synced, components: both });

    assert.deepEqual(steps, []);
    assert.deepEqual(holds, [
      {
        component: "api",
        because: "it is deployed and no longer wanted, and nobody said that it may be destroyed",
        endsWhen: "`exclave install deploy acme --allow-destroy api` says so",
        command: "exclave install deploy acme --allow-destroy api",
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

  test("needs nothing of the install's registry for a destroy, until one met that it does", () => {
    const request = wanted([], { mode: "destroyed" });
    const look = (there: SeenComponent, synced?: Seen["synced"]) => {
      const components = { api: { ...both["api"], ...there } };
      const sketch = seen({ components, ...(synced ? { synced } : {}) });
      return planInstall({ wanted: request, seen: sketch, now });
    };

    const first = look({});
    const second = look({ lastFailure });
    const third = look({ lastFailure }, syncedFor(api));

    assert.deepEqual(kinds(first.steps), ["destroy api"]);
    assert.deepEqual(materialsOf(second.steps[0]), ["plugin command", "api"]);
    assert.equal(second.holds[0]?.endsWhen, "the sync has brought it");
    assert.deepEqual(kinds(third.steps), ["destroy api"]);
  });
});
