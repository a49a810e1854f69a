// Carries out what the link machine wants done on one connection.

import type { ServerCommand } from "@exclave/api";
import { Failure, unreachable } from "@exclave/core";
import type { WebSocket } from "ws";
import type { ServerContext } from "../../context.ts";
import { grantFor } from "../../job/grants.ts";
import { joinForJob } from "../../job/job-join.ts";
import type { AgentRow } from "../../store/rows.ts";
import { closeLog } from "../close-log.ts";
import { type CommittedLinkWrite, commitLinkWrites } from "../commit-link-write.ts";
import type { GrantWanted, JoinWanted, LinkEffect, OutgoingFrame } from "../link-state.ts";
import { certifyAgent, noteAuthorities } from "./certify-agent.ts";
import type { LinkConnection } from "./link-connection.ts";
import type { MergedEffect } from "./merge-effects.ts";
import type { ShownDocuments } from "./shown-documents.ts";
import { signedCommand } from "./signed-command.ts";

export type Looks = Extract<LinkEffect, { kind: "looks" }>["looks"];
type LogPiece = Extract<LinkEffect, { kind: "append_log" }>;
type Commit = Extract<MergedEffect, { kind: "commit" }>;
type Outgoing = Extract<OutgoingFrame, { type: "command" }>;

export interface LinkEffects {
  carryOut(effect: MergedEffect): Promise<void>;
}

export interface LinkEffectsOptions {
  readonly connection: LinkConnection;
  readonly socket: WebSocket;
  readonly documents: ShownDocuments;
  /** There is room for that many commands of the outbox. */
  readonly look: (limit: number) => void;
  readonly onLive: (agent: AgentRow, epoch: number) => void;
  readonly onLooks: (looks: Looks) => void;
}

export function createLinkEffects(
  context: ServerContext,
  options: LinkEffectsOptions,
): LinkEffects {
  const { connection, socket, documents } = options;
  return { carryOut };

  async function carryOut(effect: MergedEffect): Promise<void> {
    const agent = connection.peer?.agent;
    switch (effect.kind) {
      case "send":
        return sendInOrder(effect.frame);
      case "commit":
        if (agent) await commitAll(agent, effect);
        return;
      case "append_logs":
        await Promise.all(effect.pieces.map(append));
        return;
      case "checkpoints":
        if (agent) await context.agentCheckpoints.keep(agent, effect.list);
        return;
      case "authorities":
        return noteAuthorities(context, connection, effect.fingerprints);
      case "certify":
        return certifyAgent(context, connection, effect);
      case "looks":
        return options.onLooks(effect.looks);
      case "grant":
        return agent && answerGrant(agent, effect.wanted);
      case "join":
        return agent && answerJoin(agent, effect.wanted);
      case "look":
        return options.look(effect.limit);
      case "close":
        context.log.info({ agent: agent?.id, because: effect.because }, "a link is closed");
        return socket.close(1008);
      default:
        return unreachable(effect);
    }
  }

  async function append({ job, attempt, offset, bytes }: LogPiece): Promise<void> {
    await context.logs.append(job, attempt, offset, bytes);
    await closeLog(context, job);
  }

  async function sendInOrder(frame: OutgoingFrame): Promise<void> {
    if (frame.type === "command") return sendCommand(frame);
    connection.send(frame);
    if (frame.type !== "welcome") return;
    documents.sendTrust();
    documents.sendAuthorities();
    // After the document that names its signer, before the first command.
    await documents.sendCheckpoint();
  }

  /** A command is signed on its way out, and comes after the trust document that names its signer. */
  async function sendCommand(frame: Outgoing): Promise<void> {
    const agent = connection.peer?.agent;
    if (!agent) return;
    let signedUnder: number;
    let body: ServerCommand;
    do {
      signedUnder = context.trust.current().document.version;
      body = await signedCommand(context, agent.audience, frame.body);
      if (!(await context.trust.isLatest())) await context.trust.refresh();
      // Replaced while it was being signed, here or on another server: the key may be out already.
    } while (signedUnder !== context.trust.current().document.version);
    documents.sendTrust();
    connection.send({ ...frame, body });
  }

  async function commitAll(agent: AgentRow, commit: Commit): Promise<void> {
    const { epoch, writes } = commit;
    const quota = connection.peer?.quota;
    let committed: CommittedLinkWrite;
    try {
      committed = await commitLinkWrites(context, agent.id, epoch, writes, {
        isHealthOften: () => (quota?.waitMs("health", context.now()) ?? 0) > 0,
      });
    } catch (reason) {
      if (writes.length === 1 || reason instanceof Failure) throw reason;
      // One that cannot be written must not keep those before it from being on record.
      for (const write of writes) await commitAll(agent, { ...commit, writes: [write] });
      return;
    }
    await follow(context, committed);
    if (writes.some(({ kind }) => kind === "session")) options.onLive(agent, epoch);
  }

  async function answerGrant(agent: AgentRow, wanted: GrantWanted): Promise<void> {
    const grant = await grantFor(context, agent, wanted);
    connection.send({ type: "grant", job: wanted.job, attempt: wanted.attempt, ...grant });
  }

  async function answerJoin(agent: AgentRow, { job, attempt }: JoinWanted): Promise<void> {
    const join = await joinForJob(context, agent, { job, attempt });
    connection.send({ type: "join", job, attempt, ...join });
  }
}

/** Tells whoever watches, and wakes whoever has something to do now. */
async function follow(context: ServerContext, { jobs, wake }: CommittedLinkWrite): Promise<void> {
  for (const job of jobs) {
    context.metrics.jobTold(job);
    context.traces.jobTold(job);
    const { id: subject, component, operation, because } = job;
    const install = job.install && { id: job.install, name: job.installName ?? job.install };
    const message = `${operation} is ${job.state.status}: ${job.failure?.message ?? because}`;
    context.live.say({ kind: "job", subject, install, component, message });
  }
  for (const { id, log, logComplete } of jobs) {
    if (log && !logComplete) await closeLog(context, id);
  }
  for (const install of wake.otherInstalls ?? []) context.wake.install(install);
  if (wake.releases) context.wake.releases();
  if (wake.allInstalls) context.wake.allInstalls();
}
