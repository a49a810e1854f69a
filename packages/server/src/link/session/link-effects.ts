// Carries out what the link machine wants done on one connection.

import type { ServerCommand } from "@exclave/api";
import { unreachable } from "@exclave/core";
import type { WebSocket } from "ws";
import type { ServerContext } from "../../context.ts";
import { grantFor } from "../../job/grants.ts";
import { joinForJob } from "../../job/job-join.ts";
import type { AgentRow } from "../../store/rows.ts";
import { closeLog } from "../close-log.ts";
import { commitLinkWrite } from "../commit-link-write.ts";
import type { GrantWanted, JoinWanted, LinkEffect, OutgoingFrame } from "../link-state.ts";
import { certifyAgent } from "./certify-agent.ts";
import type { LinkConnection } from "./link-connection.ts";
import type { ShownDocuments } from "./shown-documents.ts";
import { signedCommand } from "./signed-command.ts";

export type Looks = Extract<LinkEffect, { kind: "looks" }>["looks"];
type Commit = Extract<LinkEffect, { kind: "commit" }>;
type Outgoing = Extract<OutgoingFrame, { type: "command" }>;

export interface LinkEffects {
  carryOut(effect: LinkEffect): Promise<void>;
}

export interface LinkEffectsOptions {
  readonly connection: LinkConnection;
  readonly socket: WebSocket;
  readonly documents: ShownDocuments;
  /** There is room for that many commands of the outbox. */
  readonly look: (limit: number) => void;
  readonly onLive: (agent: AgentRow) => void;
  readonly onLooks: (looks: Looks) => void;
}

export function createLinkEffects(
  context: ServerContext,
  options: LinkEffectsOptions,
): LinkEffects {
  const { connection, socket, documents } = options;
  return { carryOut };

  async function carryOut(effect: LinkEffect): Promise<void> {
    const agent = connection.peer?.agent;
    switch (effect.kind) {
      case "send":
        return sendInOrder(effect.frame);
      case "commit":
        if (agent) await commit(agent, effect);
        return;
      case "append_log": {
        const { job, attempt, offset, bytes } = effect;
        await context.logs.append(job, attempt, offset, bytes);
        return closeLog(context, job);
      }
      case "checkpoints":
        if (agent) await context.agentCheckpoints.keep(agent, effect.list);
        return;
      case "certify":
        return certifyAgent(context, connection, effect);
      case "looks":
        return options.onLooks(effect.looks);
      case "grant":
        if (agent) await answerGrant(agent, effect.wanted);
        return;
      case "join":
        if (agent) await answerJoin(agent, effect.wanted);
        return;
      case "look":
        return options.look(effect.limit);
      case "close":
        context.log.info({ agent: agent?.id, because: effect.because }, "a link is closed");
        return socket.close(1008);
      default:
        return unreachable(effect);
    }
  }

  async function sendInOrder(frame: OutgoingFrame): Promise<void> {
    if (frame.type === "command") return sendCommand(frame);
    connection.send(frame);
    if (frame.type !== "welcome") return;
    documents.sendTrust();
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
      // Replaced while it was being signed: the key may be out already.
    } while (signedUnder !== context.trust.current().document.version);
    documents.sendTrust();
    connection.send({ ...frame, body });
  }

  async function commit(agent: AgentRow, { epoch, write }: Commit): Promise<void> {
    const quota = connection.peer?.quota;
    const { jobs, wake } = await commitLinkWrite(context, agent.id, epoch, write, {
      isHealthOften: () => (quota?.waitMs("health", context.now()) ?? 0) > 0,
    });
    for (const job of jobs) {
      context.metrics.jobTold(job);
      const { id: subject, component, operation, because } = job;
      const install = job.install && { id: job.install, name: job.installName ?? job.install };
      const message = `${operation} is ${job.state.status}: ${job.failure?.message ?? because}`;
      context.live.say({ kind: "job", subject, install, component, message });
      if (job.log) await closeLog(context, job.id);
    }
    if (wake.install !== undefined) context.wake.install(wake.install);
    for (const install of wake.otherInstalls ?? []) context.wake.install(install);
    if (wake.releases) context.wake.releases();
    if (wake.allInstalls) context.wake.allInstalls();
    if (write.kind === "session") options.onLive(agent);
  }

  async function answerGrant(agent: AgentRow, wanted: GrantWanted): Promise<void> {
    const { job, attempt } = wanted;
    const grant = await grantFor(context, agent, wanted);
    connection.send({ type: "grant", job, attempt, ...grant });
  }

  async function answerJoin(agent: AgentRow, { job, attempt }: JoinWanted): Promise<void> {
    const join = await joinForJob(context, agent, { job, attempt });
    connection.send({ type: "join", job, attempt, ...join });
  }
}
