// Issues and sends an agent's next client certificate. That it has one until then is committed before the agent has it.

import { Failure, Instant } from "@exclave/core";
import { rememberFirsts } from "../../access/repeats.ts";
import { audit, type ServerContext } from "../../context.ts";
import type { LinkConnection } from "./link-connection.ts";

export interface CertificateWish {
  readonly until: number;
  /** Why it is not a routine renewal: goes on record. */
  readonly because?: string;
}

/** The first renewal that is no routine goes on record at once, those of the hour after it as one row. */
const NOTED_MS = 60 * 60_000;

export async function certifyAgent(
  context: Pick<ServerContext, "store" | "now" | "certificates" | "repeats">,
  { peer, send }: Pick<LinkConnection, "peer" | "send">,
  { until, because }: CertificateWish,
): Promise<void> {
  const { store, certificates } = context;
  if (!certificates || !peer) return;
  const { id, keyGeneration } = peer.agent;
  const repeats = rememberFirsts(context.repeats);
  const agent = await store.transaction(async (tx) => {
    repeats.begin();
    const row = await tx.agents.get(id);
    if (!row || row.revokedAt !== null || row.keyGeneration !== keyGeneration) {
      throw new Failure("unauthenticated", "this agent was revoked; it has to join anew");
    }
    await tx.agents.put({ ...row, certificateUntil: Instant.parse(until) });
    if (because !== undefined) {
      const entry = { actor: id, action: "agent.certificate_renewed", subject: row.audience };
      const noted = { ...entry, details: { because, keyGeneration, until } };
      // An agent that never keeps what it is given asks at every connection.
      if (repeats.isFirst(noted, { windowMs: NOTED_MS })) await audit(tx, context, noted);
    }
    return row;
  });
  send({ type: "certificate", certificate: certificates.issue(agent, until) });
}

/** What the agent knows the server by: an authority is retired when every agent knows another. */
export async function noteAuthorities(
  { store }: Pick<ServerContext, "store">,
  { peer }: Pick<LinkConnection, "peer">,
  fingerprints: readonly string[],
): Promise<void> {
  if (!peer) return;
  await store.transaction(async (tx) => {
    const row = await tx.agents.get(peer.agent.id);
    if (row) await tx.agents.put({ ...row, authorities: [...fingerprints] });
  });
}
