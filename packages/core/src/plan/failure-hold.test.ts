import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { LastFailure } from "../consequence/failed-attempts.ts";
import { Instant } from "../ids.ts";
import {
  component,
  deployedAs,
  failed,
  kinds,
  named,
  now,
  plan,
  type SeenSketch,
  seen,
  syncedFor,
  wanted,
} from "./install.testing.ts";
import type { Wanted } from "./install-state.ts";
import { planInstall } from "./plan-install.ts";
import { decideRetry } from "./retry.ts";

const later = (ms: number) => Instant.parse(now + ms);

test("a failure that a clock ahead of time wrote down is not waited for", () => {
  const failure = { code: "unavailable", attempts: 3, mayRepeat: true } as const;
  const at = Instant.parse(now + 3_600_000);

  assert.deepEqual(decideRetry({ ...failure, at }, now), { kind: "now" });
});

describe("after a failure, the plan", () => {
  const db = component("db");
  const api = component("api", { needs: ["db"] });
  const docs = component("docs");
  const synced = syncedFor(db, api, docs);

  test("waits, then retries, when a retry can help", () => {
    const lastFailure = failed(db, { code: "unavailable", message: "no route", attempts: 3 });
    const components = { db: { lastFailure } };

    const early = plan([db], { synced, components });
    const due = plan([db], { synced, components }, { now: later(32_000) });

    assert.deepEqual(early.steps, []);
    assert.deepEqual(early.holds, [
      {
        component: "db",
        because: "apply failed (unavailable): no route",
        endsWhen: `it is retried at ${new Date(now + 32_000).toISOString()}`,
        until: now + 32_000,
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

  test("names the command that makes a newer release when the agent goes behind none", () => {
    const components = { db: { lastFailure: failed(db, { code: "downgrade" }) } };

    const { holds } = plan([db], { synced, components }, { now: later(3_600_000) });

    assert.match(holds[0]?.endsWhen ?? "", /`exclave release --channel stable`/);
  });

  test("names the same command when a sync is refused as a way back", () => {
    const syncFailure = { code: "downgrade", message: "older", at: now, attempts: 1 } as const;

    const { holds } = plan([db], { syncFailure });

    assert.equal(holds[0]?.because, "the sync failed (downgrade): older");
    assert.match(holds[0]?.endsWhen ?? "", /`exclave release --channel stable` .* is newer/);
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
    const syncFailure = { code: "policy", message: "no room", at: now, attempts: 1 } as const;
    const state: SeenSketch = { syncFailure: key ? { ...syncFailure, key } : syncFailure };

    assert.deepEqual(plan([db], state).steps, []);
    assert.match(plan([db], state).holds[0]?.because ?? "", /the sync failed \(policy\): no room/);
    assert.deepEqual(kinds(plan([db, docs], state).steps), ["sync"]);
  });

  test("tries a sync again when its time has come", () => {
    const syncFailure = { code: "unavailable", message: "no route", at: now, attempts: 1 } as const;

    assert.equal(plan([db], { syncFailure }).holds[0]?.until, now + 2_000);
    assert.deepEqual(kinds(plan([db], { syncFailure }, { now: later(2_000) }).steps), ["sync"]);
  });

  test("retries a sync whose credentials were refused: the next attempt has new ones", () => {
    const refused = { code: "unauthenticated", message: "401", at: now } as const;

    const first = plan([db], { syncFailure: { ...refused, attempts: 1 } });
    const due = plan([db], { syncFailure: { ...refused, attempts: 1 } }, { now: later(2_000) });
    const last = plan(
      [db],
      { syncFailure: { ...refused, attempts: 6 } },
      { now: later(9_999_999) },
    );

    assert.equal(first.holds[0]?.until, now + 2_000);
    assert.deepEqual(kinds(due.steps), ["sync"]);
    assert.match(last.holds[0]?.because ?? "", /401; it failed 6 times in a row/);
  });

  test("tries a destroy again by the same rules, whatever an earlier apply did", () => {
    const trace = deployedAs(db);
    const request = (lastFailure: LastFailure) => ({
      wanted: wanted([], { mode: "destroyed" }),
      seen: seen({ synced, components: { db: { deployed: trace, lastFailure } } }),
    });
    const lastFailure = failed(db, { operation: "destroy", code: "tool" });

    const early = planInstall({ ...request(lastFailure), now });
    const due = planInstall({ ...request(lastFailure), now: later(2_000) });
    const other = planInstall({ ...request(failed(db, { code: "plugin" })), now });

    assert.deepEqual([early.steps, early.holds[0]?.until], [[], now + 2_000]);
    assert.deepEqual(kinds(due.steps), ["destroy db"]);
    assert.deepEqual(kinds(other.steps), ["destroy db"]);
  });

  test("asks somebody when a destroy cannot be helped by trying again, by the command that does", () => {
    const lastFailure = failed(db, { operation: "destroy", code: "plugin" });
    const components = { db: { deployed: deployedAs(db), lastFailure } };
    const held = (changes: Partial<Wanted>) =>
      planInstall({
        wanted: wanted([], changes),
        seen: seen({ synced, components }),
        now: later(3_600_000),
      });

    const whole = held({ mode: "destroyed" });
    const alone = held({ allowDestroy: new Set([named("db")]) });

    assert.deepEqual([whole.steps, alone.steps], [[], []]);
    assert.equal(whole.holds[0]?.endsWhen, "`exclave install destroy acme` asks for a retry");
    assert.equal(alone.holds[0]?.endsWhen, "`exclave install deploy acme` asks for a retry");
  });

  test("names the destroy that retries a sync for it, and no release that nobody will want", () => {
    const failed = { message: "no room", at: now, attempts: 1 };
    const syncFailure = { ...failed, code: "policy" } as const;
    const lastFailure = { ...failed, operation: "destroy", code: "not_synced" } as const;

    const { holds } = planInstall({
      wanted: wanted([], { mode: "destroyed" }),
      seen: seen({ syncFailure, components: { db: { deployed: deployedAs(db), lastFailure } } }),
      now,
    });

    assert.equal(holds[0]?.endsWhen, "`exclave install destroy acme` asks for a retry");
  });
});
