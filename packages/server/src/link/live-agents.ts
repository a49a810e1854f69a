// The agents that are connected, each by the one session that speaks for it.

import { type Audience, Instant } from "@exclave/core";
import { rememberFirsts } from "../access/repeats.ts";
import { type AgentWatch, audit, type ServerContext } from "../context.ts";
import type { AgentRow } from "../store/rows.ts";
import type { Looks } from "./session/link-effects.ts";
import type { LinkSession } from "./session/link-session.ts";

const ROWS_AT_ONCE = 200;

export interface LiveAgent {
  readonly session: LinkSession;
  readonly agent: AgentRow;
  /** Of its session. */
  readonly epoch: number;
  watch: AgentWatch;
}

export interface LiveAgents {
  of(audience: Audience): LiveAgent | undefined;
  /** How many there are of each kind. */
  counts(): ReadonlyMap<AgentRow["kind"], number>;
  sessions(): readonly LinkSession[];
  /** A later connection of that agent is with another server: whether one of before was here. */
  moved(audience: Audience, epoch: number): boolean;
  /** From now on this session speaks for the agent; one before it is sent away. */
  enter(session: LinkSession, agent: AgentRow, epoch: number): void;
  /** When the agent last looked at its components, by its own word. */
  note(session: LinkSession, looks: Looks): void;
  /** Nothing, for a session that speaks for nobody any more. */
  leave(session: LinkSession, agent: AgentRow): void;
  /** From now on agents go because this server does: together, as one row on record. */
  stopping(): void;
  /** Resolves when every going is on record. */
  goodbyes(): Promise<void>;
}

export function createLiveAgents(
  context: () => ServerContext,
  onPresence: (agent: AgentRow) => void,
): LiveAgents {
  const live = new Map<Audience, LiveAgent>();
  const audiences = new WeakMap<LinkSession, Audience>();
  const goodbyes = new Set<Promise<unknown>>();
  const counts = new Map<AgentRow["kind"], number>();
  const left: Left[] = [];
  let isStopping = false;

  return {
    of: (audience) => live.get(audience),
    counts: () => counts,
    sessions: () => Array.from(live.values(), ({ session }) => session),
    moved,
    enter,
    note,
    leave,
    stopping() {
      isStopping = true;
    },
    async goodbyes() {
      await Promise.allSettled(goodbyes);
      await noteStop(context(), left.splice(0));
    },
  };

  function enter(session: LinkSession, agent: AgentRow, epoch: number): void {
    const before = live.get(agent.audience);
    const watch = { since: context().now(), looks: new Map() };
    live.set(agent.audience, { session, agent, epoch, watch });
    if (!before) count(agent, 1);
    audiences.set(session, agent.audience);
    before?.session.goAway("a later connection of this agent has taken over", 1_000);
    tell(context(), agent, { epoch, isUp: true });
    say(context(), agent, "connected");
    onPresence(agent);
  }

  function moved(audience: Audience, epoch: number): boolean {
    const held = live.get(audience);
    if (!held || held.epoch >= epoch) return false;
    held.session.goAway("a later connection of this agent has taken over", 1_000);
    return true;
  }

  function count({ kind }: AgentRow, by: number): void {
    counts.set(kind, (counts.get(kind) ?? 0) + by);
  }

  function note(session: LinkSession, looks: Looks): void {
    const audience = audiences.get(session);
    const held = audience === undefined ? undefined : live.get(audience);
    if (held?.session !== session) return;
    const now = context().now();
    const seen = looks.map(
      ({ component, agoMs }) => [component, Instant.parse(Math.max(0, now - agoMs))] as const,
    );
    held.watch = { ...held.watch, looks: new Map(seen) };
  }

  function leave(session: LinkSession, agent: AgentRow): void {
    const held = live.get(agent.audience);
    if (held?.session !== session) return;
    live.delete(agent.audience);
    count(agent, -1);
    if (isStopping) {
      say(context(), agent, "disconnected");
      left.push({ agent, epoch: held.epoch });
      return;
    }
    const goodbye = noteGoodbye(agent, held.epoch).finally(() => goodbyes.delete(goodbye));
    goodbyes.add(goodbye);
  }

  async function noteGoodbye({ id }: AgentRow, epoch: number): Promise<void> {
    const { store, now, log } = context();
    try {
      const repeats = rememberFirsts(context().repeats);
      const agent = await store.transaction(async (tx) => {
        repeats.begin();
        const row = await tx.agents.get(id);
        // Its later connection may be with another server: it has not gone.
        if (row?.sessionEpoch !== epoch) return undefined;
        await tx.agents.put({ ...row, seenAt: now(), heldBy: null });
        const details = { epoch };
        const gone = { actor: id, action: "agent.disconnected", subject: row.audience, details };
        if (repeats.isFirst(gone)) await audit(tx, context(), gone);
        return row;
      });
      if (!agent) return;
      tell(context(), agent, { epoch, isUp: false });
      say(context(), agent, "disconnected");
      onPresence(agent);
    } catch (reason) {
      log.warn({ reason, agent: id }, "an agent's going could not be noted");
    }
  }
}

interface Left {
  readonly agent: AgentRow;
  readonly epoch: number;
}

/** Nobody is to be woken by it: whoever starts next, and whoever sees this server go, looks at everything. */
async function noteStop(context: ServerContext, left: readonly Left[]): Promise<void> {
  const { store, now, log } = context;
  const agents = left.length;
  if (agents === 0) return;
  try {
    for (let from = 0; from < agents; from += ROWS_AT_ONCE) {
      await store.transaction(async (tx) => {
        for (const { agent, epoch } of left.slice(from, from + ROWS_AT_ONCE)) {
          const row = await tx.agents.get(agent.id);
          // Its later connection may be with another server: it has not gone.
          if (row?.sessionEpoch !== epoch) continue;
          await tx.agents.put({ ...row, seenAt: now(), heldBy: null });
        }
      });
    }
    for (const { agent, epoch } of left) tell(context, agent, { epoch, isUp: false });
    const stopped = { actor: "server", action: "server.stopped", subject: "server" };
    await store.transaction((tx) => audit(tx, context, { ...stopped, details: { agents } }));
  } catch (reason) {
    log.warn({ reason, agents }, "the going of agents could not be noted");
  }
}

function say({ live }: ServerContext, { audience, installName, id }: AgentRow, what: string): void {
  const name = installName ?? audience;
  const install = installName === null ? null : { id: audience, name };
  const message = `the agent of ${name} ${what}`;
  live.say({ kind: "agent", subject: id, install, component: null, message });
}

function tell(
  { peers }: ServerContext,
  { audience }: AgentRow,
  link: { readonly epoch: number; readonly isUp: boolean },
): void {
  peers.tell({ kind: "link", audience, ...link });
}
