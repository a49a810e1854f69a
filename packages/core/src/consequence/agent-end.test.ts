import assert from "node:assert/strict";
import { test } from "node:test";
import { Operation } from "../manifest/manifest.ts";
import { type AgentMemory, agentMemoryAfter, type SucceededJob } from "./agent-end.ts";

const NOTHING = "-";
const UNCHANGED = { build: NOTHING, setup: NOTHING, install: NOTHING };

// biome-ignore format: a table reads as a table.
const TABLE: Record<Operation, Record<SucceededJob["agent"], string>> = {
  build:    UNCHANGED,
  plan:     UNCHANGED,
  apply:    { build: NOTHING, setup: "deployed", install: "deployed, outputs kept, schedule kept" },
  destroy:  { build: NOTHING, setup: "forgotten", install: "undeployed, outputs removed, schedule removed" },
  status:   { build: NOTHING, setup: NOTHING, install: "schedule kept" },
  logs:     UNCHANGED,
  exec:     UNCHANGED,
  sync:     UNCHANGED,
  assemble: UNCHANGED,
};

for (const operation of Operation.options) {
  for (const agent of ["build", "setup", "install"] as const) {
    const expected = TABLE[operation][agent];
    test(`a successful ${operation} leaves a ${agent} agent with: ${expected}`, () => {
      const job = { agent, operation, hasComponent: true, hasSchedule: true };

      assert.equal(inWords(agentMemoryAfter(job)), expected);
      assert.deepEqual(agentMemoryAfter({ ...job, hasComponent: false }), {});
    });
  }
}

test("an apply whose plugin has no status ends the look-ups, a status without a schedule starts none", () => {
  const job = { agent: "install", hasComponent: true, hasSchedule: false } as const;

  assert.equal(agentMemoryAfter({ ...job, operation: "apply" }).schedule, "removed");
  assert.deepEqual(agentMemoryAfter({ ...job, operation: "status" }), {});
});

function inWords({ release, outputs, schedule }: AgentMemory): string {
  const words = [
    release ?? [],
    outputs ? `outputs ${outputs}` : [],
    schedule ? `schedule ${schedule}` : [],
  ].flat();
  return words.length > 0 ? words.join(", ") : NOTHING;
}
