// An agent core over a memory journal, for tests: what it wants done is looked at, not done.

import type { AgentEvent, ServerCommand, ServerFrame, UnreadableCommand } from "@exclave/api";
import {
  type Envelope,
  type JobName,
  jobName,
  type Manifest,
  type TrustDocument,
} from "@exclave/core";
import { advanceAgent } from "../core/agent-core.ts";
import { NOTHING_SAID } from "../core/agent-job-end.ts";
import {
  type AgentEffect,
  type AgentHappening,
  type AgentRules,
  type AgentState,
  type EndedJob,
  restoreState,
} from "../core/agent-state.ts";
import type { Journal } from "../journal/journal.ts";
import { createMemoryJournal } from "../journal/memory-journal.ts";
import { createDirector, type Director, NOW, testRules, trustIn } from "./builders.ts";

export const SUCCEEDED: EndedJob = {
  outcome: { kind: "succeeded" },
  outputs: [],
  artifacts: [],
  ...NOTHING_SAID,
};

export function agentWith({
  director = createDirector(),
  rules = {},
  journal = emptyJournal(),
  trust = trustIn(director),
}: {
  readonly director?: Director;
  readonly rules?: Partial<AgentRules>;
  readonly journal?: Journal;
  readonly trust?: TrustDocument;
} = {}) {
  let state: AgentState = restoreState(journal.load(), trust);
  let seq = journal.load().downAcked;
  let effects: AgentEffect[] = [];
  const all = testRules(rules);

  const agent = {
    director,
    journal,
    feed(input: AgentHappening, now = NOW) {
      const next = advanceAgent(state, { ...input, now }, all);
      state = next.state;
      for (const effect of next.effects)
        if (effect.kind === "journal") journal.commit(effect.writes);
      effects = [...next.effects];
      return effects;
    },
    frame: (frame: ServerFrame | UnreadableCommand, now = NOW) =>
      agent.feed({ kind: "frame", frame }, now),
    welcome: (
      upAcked = journal.load().upAcked,
      logs: { job: never; attempt: number; upTo: number }[] = [],
      more: { readonly inventoryWanted?: boolean } = {},
    ) =>
      agent.frame({
        type: "welcome",
        proto: 1,
        sessionEpoch: 1,
        serverTimeMs: NOW,
        upAcked,
        capabilities: [],
        limits: { logCreditBytes: 100, frameBytes: 64 },
        pingMs: 1_000,
        reconnectSpreadMs: 0,
        logs,
        ...more,
      }),
    command: (body: ServerCommand, now = NOW) =>
      agent.frame({ type: "command", seq: ++seq, body }, now),
    offer: (manifest: Manifest, envelope: Envelope = director.seal(manifest), now = NOW) =>
      agent.command(
        { type: "job_offer", job: manifest.id, attempt: manifest.attempt, envelope },
        now,
      ),
    /** Offered, accepted, launched and running. */
    run(manifest: Manifest) {
      agent.offer(manifest);
      agent.feed({ kind: "launched", name: nameOf(manifest) });
    },
    /** What the server was told, in order. */
    told: (): AgentEvent[] => journal.load().events.map(({ body }) => body),
    get state() {
      return state;
    },
    /** The same journal in a new life; everything in memory is gone. */
    restart: () => agentWith({ director, rules, journal, trust: state.trust }),
  };
  return agent;
}

export function emptyJournal(): Journal {
  const journal = createMemoryJournal({ journalId: "j1" });
  // Not fresh: most tests are not about the first start ever.
  journal.commit([{ kind: "down_acked", seq: 0 }]);
  return journal;
}

export const nameOf = (manifest: Manifest): JobName => jobName(manifest.id, manifest.attempt);
export const kinds = (effects: readonly AgentEffect[]) => effects.map(({ kind }) => kind);
export const types = (events: readonly AgentEvent[]) => events.map(({ type }) => type);
export const sent = (effects: readonly AgentEffect[]) =>
  effects.flatMap((effect) => (effect.kind === "send" ? [effect.frame] : []));
