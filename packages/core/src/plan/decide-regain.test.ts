import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Instant } from "../ids.ts";
import { REPAIRS_MAX } from "./decide-repair.ts";
import {
  component,
  deployedAs,
  job,
  kinds,
  materialsOf,
  now,
  planOf,
  seen,
  syncedFor,
  wanted,
} from "./install.testing.ts";
import type { SeenComponent } from "./install-state.ts";
import { planInstall } from "./plan-install.ts";

const db = component("db");
const api = component("api", {
  reads: ["db"],
  config: { url: `\${{ components.db.outputs.url }}` },
});
const FAILED_AT = Instant.parse(now - 3_000);
const lost = {
  operation: "destroy",
  code: "outputs_lost",
  message: "what db gave out is not kept here any more",
  at: FAILED_AT,
  attempts: 1,
} as const;

function look(database: Partial<SeenComponent> | undefined, synced = syncedFor(db, api)) {
  const components: Record<string, SeenComponent> = {
    ...(database ? { db: { deployed: deployedAs(db), ...database } } : {}),
    api: { deployed: deployedAs(api), lastFailure: lost },
  };
  const request = wanted([], { mode: "destroyed" });
  return planInstall({ wanted: request, seen: seen({ synced, components }), now });
}

describe("a destroy that cannot do without what another component gave out and its agent lost", () => {
  test("waits for an apply of what is there, and is tried again after it", () => {
    const first = look({});
    const during = look({ activeJob: { job, operation: "apply", state: "running" } });
    const after = look({ repairs: { attempts: 1, at: Instant.parse(FAILED_AT + 1) } });

    assert.deepEqual(kinds(first.steps), ["apply db"]);
    assert.ok(first.steps[0]?.kind === "apply" && first.steps[0].isAsIs);
    assert.equal(first.steps[0].repair, 1);
    assert.equal(first.holds[0]?.endsWhen, "db is applied again");
    assert.deepEqual(kinds(during.steps), []);
    assert.deepEqual(kinds(after.steps), ["destroy api"]);
  });

  test("has a plannable one planned first, and applied by that plan", () => {
    const deployed = { ...deployedAs(db), plannable: true };

    assert.deepEqual(kinds(look({ deployed }).steps), ["plan db"]);
    const [step] = look({ deployed, plan: planOf(db) }).steps;
    assert.equal(step?.kind === "apply" && step.plan, planOf(db).digest);
  });

  test("has what the apply takes synced first", () => {
    const { steps, holds } = look({}, new Set());

    assert.deepEqual(materialsOf(steps[0]), ["plugin command", "db"]);
    assert.ok(holds.some(({ endsWhen }) => endsWhen === "the sync has brought it"));
  });

  test("ends in a hold that names the last resort where no apply may help", () => {
    const once = { deployed: { ...deployedAs(db), appliesOnce: true } };
    const spent = { repairs: { attempts: REPAIRS_MAX, at: Instant.parse(0) } };
    const refused = { lastFailure: { ...lost, operation: "apply", code: "downgrade" } } as const;

    for (const there of [once, spent, refused, undefined]) {
      const { steps, holds } = look(there);
      assert.deepEqual(kinds(steps), []);
      const commands = holds.map(({ command }) => command);
      assert.ok(commands.includes("exclave install forget acme --force"), JSON.stringify(holds));
    }
  });
});
