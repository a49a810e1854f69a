// What a server's record has of the refusals its agents told.

import assert from "node:assert/strict";
import type { AuditView } from "@exclave/api";
import { until, type World } from "../../testing/harness.ts";

/**
 * As many refusals of each kind are on record as there were: the first of a kind in a minute has a row
 * of its own, and the others are counted in the row that follows.
 */
export async function untilOnRecord(world: World, codes: readonly string[]): Promise<void> {
  await until("the refusals are on record", async () => {
    const audit = await world.json<AuditView[]>("audit", "list", "--limit", "5000");
    const counts = new Map<unknown, number>();
    for (const { action, details } of audit) {
      if (action !== "agent.stray_event" && action !== "agent.alarm") continue;
      const { code, more } = details as { code?: unknown; more?: unknown };
      counts.set(code, (counts.get(code) ?? 0) + (typeof more === "number" ? more : 1));
    }
    const wanted = Map.groupBy(codes, (code) => code);
    const missing = [...wanted].filter(([code, list]) => (counts.get(code) ?? 0) < list.length);
    assert.deepEqual(missing, [], JSON.stringify([...counts]));
    return true;
  });
}
