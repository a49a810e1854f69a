// What the link machine needs to know to answer a hello.

import { type AgentFrame, AUTHORITIES, CERTIFICATES, DRAIN, helloBytes } from "@exclave/api";
import type { ServerContext } from "../../context.ts";
import { isSignedBy } from "../../joins.ts";
import {
  isOthers,
  judgeCertificate,
  type PresentedCertificate,
} from "../../tls/certificate-rules.ts";
import { writableLog } from "../agent-logs.ts";
import { closeLog } from "../close-log.ts";
import type { HelloFacts, LinkSettings } from "../link-state.ts";
import type { AgentQuotas } from "./agent-quota.ts";
import type { Peer } from "./link-connection.ts";

export interface GatheredHello {
  readonly facts: HelloFacts;
  /** Who it is, if it proved to be. */
  readonly proven?: Peer;
}

export async function gatherHello(
  context: Pick<ServerContext, "store" | "logs" | "now" | "repeats">,
  hello: Extract<AgentFrame, { type: "hello" }>,
  options: {
    readonly nonce: string;
    readonly settings: LinkSettings;
    readonly quotas: AgentQuotas;
    /** What the connection shows of its peer, where it is asked. */
    readonly presented?: PresentedCertificate | undefined;
  },
): Promise<GatheredHello> {
  const { nonce, settings, quotas, presented } = options;
  const { store } = context;
  const nothing = { isProven: false, unacked: [], logs: [], settings };
  const agent = await store.read.agents.get(hello.agent);
  const bytes = helloBytes(nonce, hello.agent, hello.bootId);
  if (!agent || !isSignedBy(agent.identityKey, bytes, hello.proof)) return { facts: nothing };
  // Another agent's connection proves nothing about this one.
  if (presented && isOthers(presented, agent)) return { facts: nothing };

  const quota = quotas.of(agent.id);
  const proven = { agent, quota, canDrain: hello.capabilities.includes(DRAIN) };
  const record = { ...agent, agent: agent.id, isRevoked: agent.revokedAt !== null };
  const retryAfterMs = quota.waitMs("session", context.now());
  if (retryAfterMs > 0) {
    return { proven, facts: { ...nothing, record, isProven: true, retryAfterMs } };
  }
  const canRenew = hello.capabilities.includes(CERTIFICATES);
  const asked = { canRenew, now: context.now() };
  const sent = await store.read.outbox.sent(agent.audience);
  const logs = [];
  for (const { job, attempt } of hello.jobs) {
    const log = await writableLog(context, agent, { job, attempt }, "new_writer");
    // Its end and its last byte may be here, and a crash came before both were compared.
    if (log) await closeLog(context, job);
    if (log) logs.push({ job, attempt, upTo: log.durable });
  }
  return {
    proven,
    facts: {
      record,
      isProven: true,
      capabilities: [DRAIN, ...(presented ? [CERTIFICATES, AUTHORITIES] : [])],
      ...(presented && { certificate: judgeCertificate(presented, agent, asked) }),
      unacked: sent.map(({ id, seq, body }) => ({ row: id, seq: seq ?? 0, body })),
      logs,
      checkpoint: await store.read.audit.head(),
      settings,
    },
  };
}
