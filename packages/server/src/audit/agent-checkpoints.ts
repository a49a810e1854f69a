// What agents present of the record they were shown: the last few signed checkpoints of each, kept so that
// `audit verify` finds a rewritten record without anybody carrying files. An agent presents them only
// after it was shown the record, so a server cannot read from them what it should have known.

import { CHECKPOINTS_PRESENTED_MAX, type Timers } from "@exclave/api";
import { type Audience, type Envelope, openCheckpointOf } from "@exclave/core";
import { verifySignature } from "@exclave/machine";
import { noteOnRecord } from "../access/note-refusal.ts";
import type { ServerContext } from "../context.ts";
import type { Notice } from "../peers/notice.ts";
import type { AgentRow } from "../store/rows.ts";

export interface AgentCheckpoints {
  /** Keeps what an agent presents. What this server never signed is left out, and that is on record. */
  keep(agent: Agent, presented: readonly Envelope[]): Promise<void>;
  /** Asks agents that are connected; returns when all have answered or the time is over. */
  ask(agents: readonly Agent[]): Promise<void>;
  /** Another server keeps what that agent presented. */
  answered(agent: string): void;
}

type Agent = Pick<AgentRow, "id" | "audience">;

/** An agent that does not answer holds nobody up for longer. */
const ANSWER_WITHIN_MS = 2_000;
/** Who was asked just now is not asked again. */
const FRESH_MS = 5_000;

export interface AgentCheckpointsOptions {
  readonly context: () => Pick<ServerContext, "store" | "trust" | "now" | "repeats" | "log">;
  /** Sends the question; false when the agent is not connected. */
  readonly send: (audience: Audience) => boolean;
  readonly timers: Pick<Timers, "after">;
  /** To whoever asked at another server. */
  readonly tell?: (notice: Notice) => void;
}

export function createAgentCheckpoints(options: AgentCheckpointsOptions): AgentCheckpoints {
  const { context, send, timers } = options;
  const waiting = new Map<string, Set<() => void>>();

  return { keep, ask, answered };

  async function keep({ id, audience }: Agent, presented: readonly Envelope[]): Promise<void> {
    const { store, trust, now } = context();
    const versions = trust.after(0);
    const documents = versions.map(({ document }) => document);
    const server = { serverId: versions[0]?.digest ?? "", documents };
    const opened = presented.map((envelope) => openCheckpointOf(server, envelope, verifySignature));
    const refused = opened.find((one) => "because" in one);
    if (refused && "because" in refused) {
      const entry = { actor: id, action: "checkpoints.refused", subject: audience };
      await noteOnRecord(context(), { ...entry, details: { because: refused.because } });
    }
    const signed = presented.filter((_, index) => "size" in (opened[index] ?? {}));
    await store.transaction(async (tx) => {
      // One that was forgotten meanwhile leaves nothing behind.
      if (!(await tx.agents.get(id))) return;
      const before = (await tx.agentCheckpoints.get(id))?.checkpoints ?? [];
      await tx.agentCheckpoints.put({ agent: id, at: now(), checkpoints: merge(before, signed) });
    });
    answered(id);
    options.tell?.({ kind: "checkpoints_kept", agent: id });
  }

  function answered(id: string): void {
    for (const resolve of waiting.get(id) ?? []) resolve();
  }

  async function ask(agents: readonly Agent[]): Promise<void> {
    const { store, now } = context();
    const asked: Agent[] = [];
    for (const agent of agents) {
      const row = await store.read.agentCheckpoints.get(agent.id);
      if (!row || now() - row.at > FRESH_MS) asked.push(agent);
    }
    await Promise.all(asked.map(answerOf));
  }

  function answerOf({ id, audience }: Agent): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const others = waiting.get(id) ?? new Set();
    waiting.set(id, others.add(resolve));
    const callOff = timers.after(ANSWER_WITHIN_MS, resolve);
    if (!send(audience)) resolve();
    return promise.finally(() => {
      callOff();
      others.delete(resolve);
      if (others.size === 0) waiting.delete(id);
    });
  }
}

/** The newest last. An agent that lost what it had does not take along what it once presented. */
function merge(before: readonly Envelope[], presented: readonly Envelope[]): Envelope[] {
  const payloads = new Set(presented.map(({ payload }) => payload));
  const others = before.filter(({ payload }) => !payloads.has(payload));
  return [...others, ...presented].slice(-CHECKPOINTS_PRESENTED_MAX);
}
