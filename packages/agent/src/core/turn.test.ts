import assert from "node:assert/strict";
import { test } from "node:test";
import { jobName } from "@exclave/core";
import { SETTLED_KEPT_MAX } from "../journal/journal.ts";
import { job } from "../testing/builders.ts";
import { dropJob, type Turn } from "./turn.ts";

test("an agent that ended ever more jobs remembers the newest of them", () => {
  const name = (n: number) => jobName(job().id, n + 1);
  const settled = new Set(Array.from({ length: SETTLED_KEPT_MAX }, (_, n) => name(n)));
  const state = { jobs: new Map(), settled } as Partial<Turn["state"]> as Turn["state"];
  const turn: Pick<Turn, "state"> = { state };

  dropJob(turn, name(SETTLED_KEPT_MAX));

  assert.equal(turn.state.settled.size, SETTLED_KEPT_MAX);
  assert.ok(turn.state.settled.has(name(SETTLED_KEPT_MAX)));
  assert.ok(!turn.state.settled.has(name(0)));
});
