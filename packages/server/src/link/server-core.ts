// The server's end of one agent's link, as a pure machine: (state, input) → (state, effects).
//
// Effects are data and are carried out in the order given; a failed one ends the connection, and
// with it this state, so nothing after it happens. That order is the whole safety argument: a
// commit comes before the acknowledgement that speaks of it, a command's sequence is committed
// before the command is sent, and a log's bytes are durable before the offset is confirmed.
//
// Every commit carries the session epoch. A store that has seen a later epoch refuses it, so an
// old connection that still thinks it is alive can write nothing.

import type { AgentEvent, AgentFrame, LogFrame, ServerCommand, ServerFrame } from "@exclave/api";
import { unreachable } from "@exclave/core";

/** How many commands may be on their way without an acknowledgement. */
export const COMMAND_WINDOW = 32;

/** What the store knows of an agent's link. */
export interface LinkRecord {
  readonly agent: string;
  readonly isRevoked: boolean;
  readonly keyGeneration: number;
  readonly journalId: string | null;
  readonly sessionEpoch: number;
  readonly upAcked: number;
  readonly downHead: number;
  readonly downAcked: number;
}

export interface SequencedCommand {
  readonly row: number;
  readonly seq: number;
  readonly body: ServerCommand;
}

export interface LinkSettings {
  readonly pingMs: number;
  readonly reconnectSpreadMs: number;
  readonly logCreditBytes: number;
  readonly frameBytes: number;
}

export type LinkState =
  | { readonly phase: "challenged"; readonly nonce: string }
  | LiveLink
  | { readonly phase: "closed" };

export interface LiveLink {
  readonly phase: "live";
  readonly agent: string;
  readonly epoch: number;
  readonly upAcked: number;
  readonly downHead: number;
  /** Given a sequence and not yet acknowledged, lowest first. */
  readonly unacked: readonly SequencedCommand[];
  /** Nothing came from the agent since: the id of the ping it has not answered, and since when. */
  readonly ping: { readonly id: number; readonly heardAt: number; readonly sentAt: number };
  readonly settings: LinkSettings;
}

type Hello = Extract<AgentFrame, { type: "hello" }>;

export type LinkInput =
  | { readonly kind: "opened"; readonly nonce: string }
  | {
      readonly kind: "hello";
      readonly frame: Hello;
      readonly facts: HelloFacts;
      readonly now: number;
    }
  | { readonly kind: "frame"; readonly frame: Exclude<AgentFrame, Hello>; readonly now: number }
  /** `durable` is how much of that log is on disk; absent when it is no job of this agent. */
  | {
      readonly kind: "log";
      readonly frame: LogFrame;
      readonly durable?: number;
      readonly now: number;
    }
  /** Commands in the outbox that have no sequence yet, oldest first. */
  | {
      readonly kind: "waiting";
      readonly rows: readonly { readonly row: number; readonly body: ServerCommand }[];
    }
  | { readonly kind: "tick"; readonly now: number };

/** What the shell looked up for a hello. */
export interface HelloFacts {
  /** Absent when no such agent joined. */
  readonly record?: LinkRecord;
  /** Whether the proof is by that agent's key over this connection's nonce. */
  readonly isProven: boolean;
  /** Commands that have a sequence and were never acknowledged, lowest first. */
  readonly unacked: readonly SequencedCommand[];
  readonly logs: readonly {
    readonly job: string;
    readonly attempt: number;
    readonly upTo: number;
  }[];
  readonly checkpoint?: { readonly size: number; readonly head: string };
  readonly settings: LinkSettings;
}

export type LinkWrite =
  /** The agent's link from now on. With `reset`, commands on their way get new sequences. */
  | {
      readonly kind: "session";
      readonly journalId: string;
      readonly upAcked: number;
      readonly downHead: number;
      readonly downAcked: number;
      readonly renumbered: readonly SequencedCommand[];
      readonly reset?: string;
      readonly hello: Hello;
    }
  /** The event itself, what follows from it, and `upAcked = seq`, in one transaction. */
  | { readonly kind: "event"; readonly seq: number; readonly event: AgentEvent }
  /** These commands are about to be sent for the first time. */
  | {
      readonly kind: "offer";
      readonly downHead: number;
      readonly commands: readonly SequencedCommand[];
    }
  /** Commands up to here are in the agent's journal. */
  | { readonly kind: "acked"; readonly seq: number };

export type LinkEffect =
  | { readonly kind: "commit"; readonly epoch: number; readonly write: LinkWrite }
  | {
      readonly kind: "append_log";
      readonly job: string;
      readonly attempt: number;
      readonly offset: number;
      readonly bytes: Uint8Array;
    }
  | { readonly kind: "send"; readonly frame: ServerFrame }
  /** Make and send a grant, if that job is this agent's. */
  | { readonly kind: "grant"; readonly job: string; readonly attempt: number }
  /** Room for commands: look into the outbox and come back with `waiting`. */
  | { readonly kind: "look"; readonly limit: number }
  | { readonly kind: "close"; readonly because: string };

export interface LinkTurn {
  readonly state: LinkState;
  readonly effects: readonly LinkEffect[];
}

export function stepLink(state: LinkState, input: LinkInput): LinkTurn {
  if (state.phase === "closed") return { state, effects: [] };
  if (input.kind === "opened") {
    const frame: ServerFrame = { type: "challenge", nonce: input.nonce };
    return turn({ phase: "challenged", nonce: input.nonce }, { kind: "send", frame });
  }
  if (state.phase === "challenged") {
    if (input.kind === "hello") return welcome(input);
    if (input.kind === "waiting" || input.kind === "tick") return { state, effects: [] };
    return refuse("protocol", "the first frame must be a hello", false);
  }
  switch (input.kind) {
    case "hello":
      return refuse("protocol", "there was a hello on this connection already", false);
    case "frame":
      return receive(heard(state, input.now), input.frame);
    case "log":
      return receiveLog(heard(state, input.now), input);
    case "waiting":
      return offer(state, input.rows);
    case "tick":
      return tick(state, input.now);
    default:
      return unreachable(input);
  }
}

function welcome({ frame, facts, now }: Extract<LinkInput, { kind: "hello" }>): LinkTurn {
  const { record, settings } = facts;
  // One answer for an unknown agent and a wrong key: ids are not to be probed for.
  if (!record || !facts.isProven) {
    return refuse("unauthenticated", "no agent with that id and key has joined here", true);
  }
  if (record.isRevoked)
    return refuse("revoked", "this agent was revoked; it has to join anew", true);
  if (frame.keyGeneration !== record.keyGeneration) {
    const because = `this key is of generation ${frame.keyGeneration}, a later one (${record.keyGeneration}) has joined`;
    return refuse("superseded", because, true);
  }
  if (!frame.protos.includes(1))
    return refuse("version", "this server speaks version 1 of the link", true);

  const session = resumeSession(frame, record, facts.unacked);
  const epoch = record.sessionEpoch + 1;
  const state: LiveLink = {
    phase: "live",
    agent: record.agent,
    epoch,
    upAcked: session.upAcked,
    downHead: session.downHead,
    unacked: session.unacked,
    ping: { id: 0, heardAt: now, sentAt: now },
    settings,
  };
  return turn(
    state,
    {
      kind: "commit",
      epoch,
      write: {
        kind: "session",
        journalId: frame.journalId,
        upAcked: session.upAcked,
        downHead: session.downHead,
        downAcked: session.downAcked,
        renumbered: session.renumbered,
        ...(session.reset === undefined ? {} : { reset: session.reset }),
        hello: frame,
      },
    },
    {
      kind: "send",
      frame: {
        type: "welcome",
        proto: 1,
        sessionEpoch: epoch,
        serverTimeMs: now,
        upAcked: session.upAcked,
        capabilities: [],
        limits: { logCreditBytes: settings.logCreditBytes, frameBytes: settings.frameBytes },
        pingMs: settings.pingMs,
        reconnectSpreadMs: settings.reconnectSpreadMs,
        logs: [...facts.logs] as never,
        ...(facts.checkpoint ? { checkpoint: facts.checkpoint } : {}),
      },
    },
    ...session.unacked.slice(0, COMMAND_WINDOW).map(sendCommand),
    ...look(session.unacked.length),
  );
}

interface Session {
  readonly upAcked: number;
  readonly downHead: number;
  readonly downAcked: number;
  readonly unacked: readonly SequencedCommand[];
  readonly renumbered: readonly SequencedCommand[];
  readonly reset?: string;
}

/** Where both sequences go on from: each side says how far it is, and a lost journal starts anew. */
function resumeSession(
  hello: Hello,
  record: LinkRecord,
  unacked: readonly SequencedCommand[],
): Session {
  const reset = resetReason(hello, record);
  if (reset === undefined) {
    const downAcked = Math.max(record.downAcked, hello.downAcked);
    return {
      upAcked: record.upAcked,
      downHead: record.downHead,
      downAcked,
      unacked: unacked.filter(({ seq }) => seq > downAcked),
      renumbered: [],
    };
  }
  // What is still in the outbox never reached the journal that counts now. Its numbers begin after
  // whatever this journal says it has.
  const renumbered = unacked.map(({ row, body }, index) => ({
    row,
    seq: hello.downAcked + index + 1,
    body,
  }));
  return {
    upAcked: hello.journalId === record.journalId ? hello.upHead : Math.max(0, hello.upFrom - 1),
    downHead: hello.downAcked + renumbered.length,
    downAcked: hello.downAcked,
    unacked: renumbered,
    renumbered,
    reset,
  };
}

function resetReason(hello: Hello, record: LinkRecord): string | undefined {
  if (record.journalId === null) return undefined;
  if (hello.journalId !== record.journalId) return "the agent's journal is a new one";
  if (hello.upHead < record.upAcked) return "the agent's journal is older than what it sent";
  if (hello.downAcked > record.downHead) return "the agent has commands this server never numbered";
  return undefined;
}

function receive(state: LiveLink, frame: Exclude<AgentFrame, Hello>): LinkTurn {
  switch (frame.type) {
    case "event":
      return receiveEvent(state, frame);
    case "ack":
      return receiveAck(state, frame.seq);
    case "resend":
      return turn(
        state,
        ...inWindow(state.unacked)
          .filter(({ seq }) => seq >= frame.from)
          .map(sendCommand),
      );
    case "grant_want":
      return turn(state, { kind: "grant", job: frame.job, attempt: frame.attempt });
    case "pong":
      return { state, effects: [] };
    default:
      return unreachable(frame);
  }
}

function receiveEvent(state: LiveLink, { seq, body }: { seq: number; body: AgentEvent }): LinkTurn {
  if (seq <= state.upAcked) return turn(state, send({ type: "ack", seq: state.upAcked }));
  if (seq > state.upAcked + 1)
    return turn(state, send({ type: "resend", from: state.upAcked + 1 }));
  return turn(
    { ...state, upAcked: seq },
    { kind: "commit", epoch: state.epoch, write: { kind: "event", seq, event: body } },
    send({ type: "ack", seq }),
  );
}

function receiveAck(state: LiveLink, seq: number): LinkTurn {
  if (seq > state.downHead) {
    return refuse("protocol", `command ${seq} was acknowledged and never sent`, false);
  }
  const rest = state.unacked.filter((command) => command.seq > seq);
  if (rest.length === state.unacked.length) return { state, effects: [] };
  // Those that were outside the window and are inside it now go out for the first time.
  const sentTo = inWindow(state.unacked).at(-1)?.seq ?? 0;
  const entering = inWindow(rest).filter((command) => command.seq > sentTo);
  return turn(
    { ...state, unacked: rest },
    { kind: "commit", epoch: state.epoch, write: { kind: "acked", seq } },
    ...entering.map(sendCommand),
    ...look(rest.length),
  );
}

function receiveLog(
  state: LiveLink,
  { frame, durable }: Extract<LinkInput, { kind: "log" }>,
): LinkTurn {
  const { job, attempt, offset, bytes } = frame;
  // No job of this agent: not acknowledged, and not worth the connection either.
  if (durable === undefined) return { state, effects: [] };
  const ack = (upTo: number): LinkEffect =>
    send({ type: "log_ack", job: job as never, attempt, upTo });
  // A gap or all known: the offset sends the agent back to where the file ends.
  if (offset > durable || offset + bytes.length <= durable) return turn(state, ack(durable));
  const fresh = bytes.subarray(durable - offset);
  return turn(
    state,
    { kind: "append_log", job, attempt, offset: durable, bytes: fresh },
    ack(durable + fresh.length),
  );
}

function offer(
  state: LiveLink,
  rows: readonly { readonly row: number; readonly body: ServerCommand }[],
): LinkTurn {
  const known = new Set(state.unacked.map(({ row }) => row));
  const room = COMMAND_WINDOW - state.unacked.length;
  const commands = rows
    .filter(({ row }) => !known.has(row))
    .slice(0, Math.max(0, room))
    .map(({ row, body }, index) => ({ row, seq: state.downHead + index + 1, body }));
  if (commands.length === 0) return { state, effects: [] };
  const downHead = state.downHead + commands.length;
  return turn(
    { ...state, downHead, unacked: [...state.unacked, ...commands] },
    { kind: "commit", epoch: state.epoch, write: { kind: "offer", downHead, commands } },
    ...commands.map(sendCommand),
  );
}

function tick(state: LiveLink, now: number): LinkTurn {
  const { ping, settings } = state;
  if (now - ping.heardAt > settings.pingMs * 2.5) {
    return turn({ phase: "closed" }, { kind: "close", because: "the agent fell silent" });
  }
  if (now - ping.sentAt < settings.pingMs) return { state, effects: [] };
  const id = ping.id + 1;
  return turn({ ...state, ping: { ...ping, id, sentAt: now } }, send({ type: "ping", id }));
}

function heard(state: LiveLink, now: number): LiveLink {
  return { ...state, ping: { ...state.ping, heardAt: now } };
}

function inWindow(commands: readonly SequencedCommand[]): readonly SequencedCommand[] {
  return commands.slice(0, COMMAND_WINDOW);
}

function look(unackedCount: number): LinkEffect[] {
  const limit = COMMAND_WINDOW - unackedCount;
  return limit > 0 ? [{ kind: "look", limit }] : [];
}

function refuse(code: string, because: string, permanent: boolean): LinkTurn {
  const frame: ServerFrame = { type: "goaway", code, because, retryAfterMs: 5_000, permanent };
  return turn({ phase: "closed" }, send(frame), { kind: "close", because });
}

function send(frame: ServerFrame): LinkEffect {
  return { kind: "send", frame };
}

function sendCommand({ seq, body }: SequencedCommand): LinkEffect {
  return send({ type: "command", seq, body });
}

function turn(state: LinkState, ...effects: LinkEffect[]): LinkTurn {
  return { state, effects };
}
