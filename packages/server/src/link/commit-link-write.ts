// Carries out the link machine's commits, each in one transaction that is refused when a later
// connection of the same agent has taken over.

import type { AgentEvent } from "@exclave/api";
import { advanceJob, Failure, type Instant, unreachable } from "@exclave/core";
import { audit, type ServerContext } from "../context.ts";
import type { AgentRow, JobRow } from "../store/rows.ts";
import { componentKey, type Tables } from "../store/store.ts";
import { type AgentEventWrites, applyAgentEvent } from "./apply-agent-event.ts";
import { type LinkWrite } from "./link-state.ts";
import { writeAll } from "./write-agent-event.ts";

export interface CommittedLinkWrite {
  readonly jobs: readonly JobRow[];
  readonly wake: AgentEventWrites["wake"];
}

type Context = Pick<ServerContext, "store" | "now">;
const NOTHING: CommittedLinkWrite = { jobs: [], wake: {} };

export function commitLinkWrite(
  context: Context,
  agentId: string,
  epoch: number,
  write: LinkWrite,
): Promise<CommittedLinkWrite> {
  return context.store.transaction(async (tx) => {
    const agent = await fencedAgent(tx, agentId, write.kind === "session" ? epoch - 1 : epoch);
    switch (write.kind) {
      case "session":
        return commitSession(tx, context, agent, epoch, write);
      case "offer":
        return commitOffer(tx, context, agent, write);
      case "acked":
        await tx.agents.put({ ...agent, downAcked: Math.max(agent.downAcked, write.seq) });
        await tx.outbox.trim(agent.audience, write.seq);
        return NOTHING;
      case "event":
        await tx.agents.put({ ...agent, upAcked: write.seq });
        return commitAgentEvent(tx, agent, write.event, context.now());
      default:
        return unreachable(write);
    }
  });
}

async function fencedAgent(tx: Tables, id: string, epoch: number): Promise<AgentRow> {
  const agent = await tx.agents.get(id);
  if (agent?.sessionEpoch !== epoch) {
    throw new Failure("conflict", "a later connection of this agent has taken over");
  }
  return agent;
}

async function commitSession(
  tx: Tables,
  context: Context,
  agent: AgentRow,
  epoch: number,
  write: Extract<LinkWrite, { kind: "session" }>,
): Promise<CommittedLinkWrite> {
  const { journalId, upAcked, downHead, downAcked, hello } = write;
  const { version, platform, runtime } = hello;
  await tx.agents.put({
    ...agent,
    sessionEpoch: epoch,
    journalId,
    upAcked,
    downHead,
    downAcked,
    version,
    platform,
    runtime,
    seenAt: context.now(),
    everConnected: true,
  });
  if (write.reset === undefined) {
    await tx.outbox.trim(agent.audience, downAcked);
  } else {
    // By way of numbers nobody has: a new number may still be another row's old one.
    for (const { row } of write.renumbered) await tx.outbox.assign(row, -row);
    for (const { row, seq } of write.renumbered) await tx.outbox.assign(row, seq);
    await audit(tx, context, {
      actor: agent.id,
      action: "agent.journal_reset",
      subject: agent.audience,
      details: { because: write.reset, journalId, before: agent.journalId },
    });
  }
  const details = { epoch, version, platform, runtime, bootId: hello.bootId };
  await audit(tx, context, {
    actor: agent.id,
    action: "agent.connected",
    subject: agent.audience,
    details,
  });
  return NOTHING;
}

async function commitOffer(
  tx: Tables,
  context: Context,
  agent: AgentRow,
  { downHead, commands }: Extract<LinkWrite, { kind: "offer" }>,
): Promise<CommittedLinkWrite> {
  await tx.agents.put({ ...agent, downHead });
  const jobs: JobRow[] = [];
  for (const { row, seq, body } of commands) {
    await tx.outbox.assign(row, seq);
    if (body.type !== "job_offer") continue;
    const job = await tx.jobs.get(body.job);
    const state = job && advanceJob(job.state, { type: "offer", at: context.now() });
    if (!job || !state) continue;
    jobs.push({ ...job, state });
    await tx.jobs.put({ ...job, state });
    await audit(tx, context, {
      actor: "server",
      action: "job.offered",
      subject: job.id,
      details: { agent: agent.id, attempt: job.attempt, manifest: job.manifestDigest },
    });
  }
  return { ...NOTHING, jobs };
}

async function commitAgentEvent(
  tx: Tables,
  agent: AgentRow,
  event: AgentEvent,
  now: Instant,
): Promise<CommittedLinkWrite> {
  const named = "job" in event ? await tx.jobs.get(event.job) : undefined;
  const job = named?.audience === agent.audience ? named : undefined;
  const installName = job?.install ?? (agent.kind === "install" ? agent.audience : undefined);
  const install = installName === undefined ? undefined : await tx.installs.get(installName);
  const componentName = event.type === "health" ? event.component : (job?.component ?? undefined);
  const component =
    install && componentName !== undefined
      ? await tx.components.get(componentKey(install.name, componentName))
      : undefined;
  const facts = { event, agent: agent.id, audience: agent.audience, now, job, install, component };
  const writes = applyAgentEvent(
    event.type === "inventory" ? { ...facts, ...(await openJobs(tx, agent)) } : facts,
  );
  await writeAll(tx, writes);
  return { jobs: writes.jobs, wake: writes.wake };
}

async function openJobs(tx: Tables, { audience }: AgentRow) {
  const open = await tx.jobs.open(audience);
  const sent = await tx.outbox.sent(audience);
  const undelivered = new Set(
    sent.filter(({ body }) => body.type === "job_offer").map(({ job }) => job),
  );
  return { open: open.filter(({ state }) => state.status !== "queued"), undelivered };
}
