import assert from "node:assert/strict";
import { test } from "node:test";
import { AT, agentRow, installFacts, installRow } from "../testing/rows.ts";
import type { InstallFacts } from "./gather-install.ts";
import { decideInstall } from "./install-decision.ts";

const WANTED = agentRow({ isInventoryWanted: true });

function holdsOf(facts: Partial<InstallFacts>): string[] {
  const install = installRow({ mode: "destroyed", sandboxState: "present" });
  const all = installFacts({ install, ...facts });
  const { steps, holds, sandbox } = decideInstall(all, AT);
  assert.deepEqual(steps, []);
  assert.notEqual(sandbox.kind, "teardown");
  return holds.map(({ endsWhen }) => endsWhen);
}

test("nothing is decided while an agent that knows more than the server is asked what there is", () => {
  assert.deepEqual(holdsOf({ agent: WANTED }), ["the agent's inventory has come"]);
});

test("an agent that is away is not waited for in vain: its absence says more", () => {
  assert.ok(!holdsOf({ agent: WANTED, isAgentOnline: false }).includes("inventory"));
  assert.ok(!holdsOf({ agent: agentRow() }).some((endsWhen) => endsWhen.includes("inventory")));
});
