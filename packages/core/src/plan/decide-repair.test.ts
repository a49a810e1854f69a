import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { digestOf } from "../encoding/sha256.ts";
import { type Digest, Instant } from "../ids.ts";
import { REPAIRS_MAX, repairPauseMs } from "./decide-repair.ts";
import { component, deployedAs, kinds, now, plan, planOf, syncedFor } from "./install.testing.ts";
import type { Ailment, SeenComponent, WantedComponent } from "./install-state.ts";

const HOUR_MS = 3_600_000;
const db = component("db");

function look(ailment: Ailment | undefined, there: SeenComponent = {}, want: WantedComponent = db) {
  const seen = { deployed: deployedAs(want), ...(ailment ? { ailment } : {}), ...there };
  return plan([want], { synced: syncedFor(want), components: { [want.name]: seen } });
}

function ill(kind: Ailment["kind"], agoMs: number): Ailment {
  return { kind, since: Instant.parse(now - agoMs), because: "no process" };
}

describe("a component that is deployed and not well", () => {
  test("is left alone for a grace time, then applied again with the reason", () => {
    const early = look(ill("missing", 19_999));
    const due = look(ill("missing", 20_000));

    assert.deepEqual([early.steps, early.holds, early.wakeAt], [[], [], now + 1]);
    assert.deepEqual(kinds(due.steps), ["apply db"]);
    assert.match(due.steps[0]?.because ?? "", /it is missing since .*: no process; repair 1 of 4/);
    assert.deepEqual(kinds(look(ill("degraded", 20_000)).steps), []);
    assert.deepEqual(kinds(look(ill("degraded", 120_000)).steps), ["apply db"]);
  });

  test("is applied again where its agent lost what another one needs of it", () => {
    const web = component("web", { reads: ["db"] });
    const there = { db: { deployed: deployedAs(db) } };
    const current = deployedAs(web, there);
    const lost = (key: Digest): SeenComponent => ({
      deployed: current,
      lastFailure: {
        operation: "apply",
        code: "outputs_lost",
        message: "what db gave out is not kept here any more",
        at: now,
        attempts: 1,
        key,
      },
    });
    const look = (key: Digest, want: WantedComponent = db) =>
      plan([want, web], {
        synced: syncedFor(db, web),
        components: { ...there, web: lost(key) },
      });

    const again = look(current.deployKey);
    const once = look(current.deployKey, { ...db, appliesOnce: true });

    assert.deepEqual(kinds(again.steps), ["apply db"]);
    assert.match(
      again.steps[0]?.because ?? "",
      /web needs its outputs, and the agent has lost them/,
    );
    assert.deepEqual(once.steps, []);
    assert.equal(once.holds[0]?.command, "exclave install deploy acme --component db");
    assert.deepEqual(kinds(look(digestOf("another")).steps), [], "they are there again");
  });

  test("is not left alone because a wrong clock wrote down when it began", () => {
    const ahead = Instant.parse(now + HOUR_MS);

    const ailing = look({ ...ill("missing", 0), since: ahead });
    const repaired = look(ill("missing", 25_000), { repairs: { attempts: 1, at: ahead } });

    assert.deepEqual(kinds(ailing.steps), ["apply db"]);
    assert.deepEqual(kinds(repaired.steps), ["apply db"]);
  });

  test("is planned first where its plugin plans, and only the apply counts as a repair", () => {
    const want = component("db", { plannable: true });

    const first = look(ill("missing", HOUR_MS), {}, want);
    const second = look(ill("missing", HOUR_MS), { plan: planOf(want) }, want);

    assert.deepEqual(kinds(first.steps), ["plan db"]);
    assert.ok(first.steps[0]?.kind === "plan" && first.steps[0].repair === undefined);
    assert.ok(second.steps[0]?.kind === "apply" && second.steps[0].repair === 1);
  });

  test("is repaired with backoff, and after the last one held with the command", () => {
    const after = (attempts: number, agoMs: number) =>
      look(ill("missing", 25_000), { repairs: { attempts, at: Instant.parse(now - agoMs) } });

    for (let done = 1; done < REPAIRS_MAX; done++) {
      const pause = repairPauseMs(done);
      const waiting = after(done, pause - 1);
      assert.deepEqual(waiting.steps, []);
      assert.equal(waiting.holds[0]?.until, now + 1);
      assert.match(after(done, pause).steps[0]?.because ?? "", new RegExp(`repair ${done + 1} of`));
    }
    const held = after(REPAIRS_MAX, HOUR_MS);
    assert.deepEqual(held.steps, []);
    assert.match(held.holds[0]?.because ?? "", /4 repairs did not help/);
    assert.match(held.holds[0]?.endsWhen ?? "", /`exclave install deploy acme --component db`/);
    assert.equal(held.holds[0]?.until, undefined);
  });

  test("is repaired from one again when it was well for an hour in between", () => {
    const repairs = { attempts: REPAIRS_MAX, at: Instant.parse(now - HOUR_MS - 30_000) };

    assert.match(
      look(ill("missing", 30_000), { repairs }).steps[0]?.because ?? "",
      /repair 1 of 4/,
    );
  });

  test("that drifted is repaired only where its app says so", () => {
    const auto = { ...db, repair: "auto" } as const;

    assert.deepEqual(look(ill("drifted", HOUR_MS)), { steps: [], holds: [] });
    assert.deepEqual(kinds(look(ill("drifted", HOUR_MS), {}, auto).steps), ["apply db"]);
  });

  test("is held with the command where it must not be applied by itself", () => {
    for (const want of [
      { ...db, repair: "off" as const },
      { ...db, appliesOnce: true },
    ]) {
      const { steps, holds } = look(ill("missing", HOUR_MS), {}, want);
      assert.deepEqual(steps, []);
      assert.match(holds[0]?.endsWhen ?? "", /`exclave install deploy acme --component db`/);
    }
  });

  test("is applied at once when somebody asks, well or not, and whatever its app says", () => {
    const asked = { applyAsked: "ada" };

    for (const want of [db, { ...db, repair: "off" as const }, { ...db, appliesOnce: true }]) {
      const { steps } = look(undefined, asked, want);
      assert.deepEqual(kinds(steps), ["apply db"]);
      assert.equal(steps[0]?.because, "ada asked for it");
    }
    assert.deepEqual(look(undefined), { steps: [], holds: [] });
  });
});
