// Takes an agent's key out of use. Its connection ends at once, nothing it says is written any more, and only a
// join string that is made later brings it back, with keys of its own.

import { Failure } from "@exclave/core";
import { audit, type ServerContext } from "../context.ts";
import type { AgentRow } from "../store/rows.ts";

export interface Revocation {
  readonly agent: string;
  readonly by: string;
  readonly because?: string | undefined;
}

export async function revokeAgent(
  context: Pick<ServerContext, "store" | "now" | "wake">,
  { agent: id, by, because }: Revocation,
): Promise<AgentRow> {
  const revoked = await context.store.transaction(async (tx) => {
    const agent = await tx.agents.get(id);
    if (!agent) throw new Failure("not_found", `there is no agent ${id}`);
    if (agent.revokedAt !== null) return agent;
    const row = { ...agent, revokedAt: context.now() };
    await tx.agents.put(row);
    await audit(tx, context, {
      actor: by,
      action: "agent.revoked",
      subject: agent.audience,
      details: { agent: id, keyGeneration: agent.keyGeneration, because },
    });
    return row;
  });
  context.wake.revoked(revoked.audience);
  return revoked;
}
