// The server's end of one agent's link, as a pure machine: (state, input) → (state, effects).
//
// Effects are data and are carried out in the order given; a failed one ends the connection, and
// with it this state, so nothing after it happens. That order is the whole safety argument: a
// commit comes before the acknowledgement that speaks of it, a command's sequence is committed
// before the command is sent, and a log's bytes are durable before the offset is confirmed.
//
// Every commit carries the session epoch. A store that has seen a later epoch refuses it, so an
// old connection that still thinks it is alive can write nothing.

import {
  type AgentEvent,
  type AgentFrame,
  COMMAND_WINDOW,
  COMMAND_WINDOW_BYTES,
  RESEND_EVERY_MS,
  type ServerFrame,
  sharedCapabilities,
} from "@exclave/api";
import { unreachable } from "@exclave/core";
import { certificateEnd, OFFER_AGAIN_MS, renewAt } from "../tls/certificate-rules.ts";
import {
  type Command,
  type Hello,
  type LinkCertificate,
  type LinkEffect,
  type LinkInput,
  type LinkState,
  type LiveLink,
  type OutgoingFrame,
  type SequencedCommand,
} from "./link-state.ts";
import { resumeSession } from "./resume-session.ts";

export interface LinkStep {
  readonly state: LinkState;
  readonly effects: readonly LinkEffect[];
}

export function advanceLink(state: LinkState, input: LinkInput): LinkStep {
  if (state.phase === "closed") return { state, effects: [] };
  if (state.phase === "challenged") {
    if (input.kind === "opened") {
      const frame: ServerFrame = { type: "challenge", nonce: input.nonce };
      return step({ phase: "challenged", nonce: input.nonce }, { kind: "send", frame });
    }
    if (input.kind === "hello") return welcome(input);
    if (input.kind === "waiting" || input.kind === "tick") return { state, effects: [] };
    return refuse("protocol", "the first frame must be a hello", false);
  }
  switch (input.kind) {
    // It is open already, and its agent has proven who it is.
    case "opened":
      return { state, effects: [] };
    case "hello":
      return refuse("protocol", "there was a hello on this connection already", false);
    case "frame":
      return receive(heard(state, input.now), input.frame, input.now);
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

function welcome({ frame, facts, now }: Extract<LinkInput, { kind: "hello" }>): LinkStep {
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
  if (facts.retryAfterMs !== undefined) {
    const because = "this agent connects too often";
    return refuse("rate_limited", because, false, facts.retryAfterMs);
  }
  if (!frame.protos.includes(1))
    return refuse("version", "this server speaks version 1 of the link", true);
  const { certificate, capabilities = [] } = facts;
  if (certificate?.kind === "refuse") return refuse("certificate", certificate.because, true);
  if (certificate?.kind === "renew") return renew(certificate.because, now);

  const session = resumeSession(frame, record, facts.unacked);
  const isInventoryWanted = session.isSetBack || record.isInventoryWanted;
  const epoch = record.sessionEpoch + 1;
  const state: LiveLink = {
    phase: "live",
    agent: record.agent,
    epoch,
    upAcked: session.upAcked,
    downHead: session.downHead,
    unacked: session.unacked,
    ping: { id: 0, heardAt: now, sentAt: now },
    resend: { at: now - RESEND_EVERY_MS },
    settings,
    ...(certificate?.kind === "in" && {
      certificate: certificateOf(certificate.until, record.agent),
    }),
  };
  return step(
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
        withdrawn: session.withdrawn,
        ...(session.reset === undefined ? {} : { reset: session.reset }),
        isInventoryWanted,
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
        capabilities: sharedCapabilities(capabilities, frame.capabilities),
        limits: { logCreditBytes: settings.logCreditBytes, frameBytes: settings.frameBytes },
        pingMs: settings.pingMs,
        reconnectSpreadMs: settings.reconnectSpreadMs,
        logs: [...facts.logs] as never,
        ...(isInventoryWanted ? { inventoryWanted: true } : {}),
        ...(facts.checkpoint ? { checkpoint: facts.checkpoint } : {}),
      },
    },
    ...inWindow(session.unacked).map(sendCommand),
    ...look(session.unacked.length),
  );
}

/** The agent is who it says, and gets a certificate and nothing else: it dials again with that. */
function renew(because: string, now: number): LinkStep {
  const until = certificateEnd(now);
  const frame = { type: "goaway", code: "certificate", because, permanent: false } as const;
  return step(
    { phase: "closed" },
    { kind: "certify", until, because },
    send({ ...frame, retryAfterMs: 0, spreadMs: 0 }),
    { kind: "close", because },
  );
}

function certificateOf(until: number, agent: string): LinkCertificate {
  return { until, offerAt: renewAt(until, agent) };
}

function receiveKept(state: LiveLink, until: number): LinkStep {
  if (state.certificate?.offered !== until) return { state, effects: [] };
  return step({ ...state, certificate: certificateOf(until, state.agent) });
}

function receive(state: LiveLink, frame: Exclude<AgentFrame, Hello>, now: number): LinkStep {
  switch (frame.type) {
    case "event":
      return receiveEvent(state, frame);
    case "ack":
      return receiveAck(state, frame.seq);
    case "resend":
      return sendAgain(state, frame.from, now);
    case "grant_want":
      return step(state, { kind: "grant", wanted: frame });
    case "join_want":
      return step(state, { kind: "join", wanted: frame });
    case "checkpoints":
      return step(state, { kind: "checkpoints", list: frame.list });
    case "certificate_kept":
      return receiveKept(state, frame.until);
    case "authorities_kept":
      return step(state, { kind: "authorities", fingerprints: frame.fingerprints });
    case "pong":
      return step(state, ...(frame.looks ? [{ kind: "looks" as const, looks: frame.looks }] : []));
    default:
      return unreachable(frame);
  }
}

/** One repetition at a time: until it can have arrived, asking for more of it is only remembered. */
function sendAgain(state: LiveLink, from: number, now: number): LinkStep {
  if (now - state.resend.at < RESEND_EVERY_MS) {
    return step({ ...state, resend: { ...state.resend, wantedFrom: from } });
  }
  const commands = inWindow(state.unacked).filter(({ seq }) => seq >= from);
  return step({ ...state, resend: { at: now } }, ...commands.map(sendCommand));
}

function receiveEvent(state: LiveLink, { seq, body }: { seq: number; body: AgentEvent }): LinkStep {
  if (seq <= state.upAcked) return step(state, send({ type: "ack", seq: state.upAcked }));
  if (seq > state.upAcked + 1)
    return step(state, send({ type: "resend", from: state.upAcked + 1 }));
  return step(
    { ...state, upAcked: seq },
    { kind: "commit", epoch: state.epoch, write: { kind: "event", seq, event: body } },
    send({ type: "ack", seq }),
  );
}

function receiveAck(state: LiveLink, seq: number): LinkStep {
  if (seq > state.downHead) {
    return refuse("protocol", `command ${seq} was acknowledged and never sent`, false);
  }
  const rest = state.unacked.filter((command) => command.seq > seq);
  if (rest.length === state.unacked.length) return { state, effects: [] };
  // Those that were outside the window and are inside it now go out for the first time.
  const sentTo = inWindow(state.unacked).at(-1)?.seq ?? 0;
  const entering = inWindow(rest).filter((command) => command.seq > sentTo);
  return step(
    { ...state, unacked: rest },
    { kind: "commit", epoch: state.epoch, write: { kind: "acked", seq } },
    ...entering.map(sendCommand),
    ...look(rest.length),
  );
}

function receiveLog(
  state: LiveLink,
  { frame, durable, most = Infinity, isUnwanted }: Extract<LinkInput, { kind: "log" }>,
): LinkStep {
  const { job, attempt, offset } = frame;
  // After its end a job's log is as long as was said then: more is not taken.
  const bytes = frame.bytes.subarray(0, Math.max(0, most - offset));
  const ack = (upTo: number): LinkEffect =>
    send({ type: "log_ack", job: job as never, attempt, upTo });
  // Not on record here, because a backup was restored: the agent is to be done with it.
  if (isUnwanted) return step(state, ack(offset + frame.bytes.length));
  // No job of this agent: not acknowledged, and not worth the connection either.
  if (durable === undefined) return { state, effects: [] };
  // A gap or all known: the offset sends the agent back to where the file ends.
  if (offset > durable || offset + bytes.length <= durable) return step(state, ack(durable));
  const fresh = bytes.subarray(durable - offset);
  return step(
    state,
    { kind: "append_log", job, attempt, offset: durable, bytes: fresh },
    ack(durable + fresh.length),
  );
}

function offer(
  state: LiveLink,
  rows: readonly { readonly row: number; readonly body: Command }[],
): LinkStep {
  const known = new Set(state.unacked.map(({ row }) => row));
  const room = COMMAND_WINDOW - state.unacked.length;
  const numbered = rows
    .filter(({ row }) => !known.has(row))
    .slice(0, Math.max(0, room))
    .map(({ row, body }, index) => ({ row, seq: state.downHead + index + 1, body }));
  // What does not fit the window stays in the outbox, where it can still be taken back.
  const commands = inWindow([...state.unacked, ...numbered]).slice(state.unacked.length);
  if (commands.length === 0) return { state, effects: [] };
  const downHead = state.downHead + commands.length;
  return step(
    { ...state, downHead, unacked: [...state.unacked, ...commands] },
    { kind: "commit", epoch: state.epoch, write: { kind: "offer", downHead, commands } },
    ...commands.map(sendCommand),
  );
}

/** Whether a tick has anything to do: of many agents at rest hardly any, and none of those is to be troubled. */
export function isTickDue(state: LinkState, now: number): boolean {
  if (state.phase !== "live") return false;
  const { ping, settings, certificate } = state;
  return (
    isResendDue(state, now) ||
    isSilent(state, now) ||
    (certificate !== undefined && now >= certificate.offerAt) ||
    now - ping.sentAt >= settings.pingMs
  );
}

function tick(state: LiveLink, now: number): LinkStep {
  const { ping, resend, certificate, settings } = state;
  if (isResendDue(state, now)) return sendAgain(state, resend.wantedFrom ?? 0, now);
  if (isSilent(state, now)) {
    return step({ phase: "closed" }, { kind: "close", because: "the agent fell silent" });
  }
  if (certificate && now >= certificate.offerAt) {
    const until = certificateEnd(now);
    const offered = { ...certificate, offerAt: now + OFFER_AGAIN_MS, offered: until };
    return step({ ...state, certificate: offered }, { kind: "certify", until });
  }
  if (now - ping.sentAt < settings.pingMs) return { state, effects: [] };
  const id = ping.id + 1;
  return step({ ...state, ping: { ...ping, id, sentAt: now } }, send({ type: "ping", id }));
}

function isResendDue({ resend }: LiveLink, now: number): boolean {
  return resend.wantedFrom !== undefined && now - resend.at >= RESEND_EVERY_MS;
}

function isSilent({ ping, settings }: LiveLink, now: number): boolean {
  return now - ping.heardAt > settings.pingMs * 2.5;
}

function heard(state: LiveLink, now: number): LiveLink {
  return { ...state, ping: { ...state.ping, heardAt: now } };
}

function inWindow(commands: readonly SequencedCommand[]): readonly SequencedCommand[] {
  let bytes = 0;
  const end = commands.findIndex(({ body }, index) => {
    bytes += sizeOf(body);
    return index === COMMAND_WINDOW || (index > 0 && bytes > COMMAND_WINDOW_BYTES);
  });
  return end < 0 ? commands : commands.slice(0, end);
}

function sizeOf(body: Command): number {
  if (body.type !== "job_offer") return 0;
  return "envelope" in body ? body.envelope.payload.length : body.payload.length;
}

function look(unackedCount: number): LinkEffect[] {
  const limit = COMMAND_WINDOW - unackedCount;
  return limit > 0 ? [{ kind: "look", limit }] : [];
}

function refuse(code: string, because: string, permanent: boolean, retryAfterMs = 5_000): LinkStep {
  const frame: ServerFrame = { type: "goaway", code, because, retryAfterMs, permanent };
  return step({ phase: "closed" }, send(frame), { kind: "close", because });
}

function send(frame: OutgoingFrame): LinkEffect {
  return { kind: "send", frame };
}

function sendCommand({ seq, body }: SequencedCommand): LinkEffect {
  return send({ type: "command", seq, body });
}

function step(state: LinkState, ...effects: LinkEffect[]): LinkStep {
  return { state, effects };
}
