// The agent's side of the link: two durable sequences and the logs beside them. A command is
// acknowledged when it is journaled, an event is sent until it is acknowledged, and a log is sent
// from wherever the server says it has it.

import {
  PUBLISH_JOB,
  type ServerCommand,
  type ServerFrame,
  type UnreadableCommand,
} from "@exclave/api";
import { type JobName, jobName, unreachable } from "@exclave/core";
import { renumberedEnd } from "../journal/journal.ts";
import { handleCancel } from "./agent-cancel.ts";
import { handleAck, handleLogAck, rewindEvents } from "./agent-delivery.ts";
import { heldJob, recordInventory } from "./agent-inventory.ts";
import { handleGrant, handleJoin } from "./agent-jobs.ts";
import { EVENTS_KEPT_MAX, LOG_CREDIT_BYTES_MAX } from "./agent-limits.ts";
import { handleOffer, refuse } from "./agent-offers.ts";
import { foreignOrigin, refuseOrigin } from "./agent-origins.ts";
import {
  handleCheckpoint,
  isRecordShown,
  presentCheckpoints,
  refuseRecord,
  seenSizes,
} from "./agent-record.ts";
import { looks } from "./agent-schedule.ts";
import type { AgentJob, HelloFacts } from "./agent-state.ts";
import { handleTrust } from "./agent-trust.ts";
import { act, journal, record, send, setJob, type Turn } from "./turn.ts";

const NOT_SHOWN = "it was not shown to continue what this agent saw of it";

/** Of a frame, for log data; the rest is for its header. */
const LOG_SHARE = 7 / 8;
const LOG_CHUNK_BYTES = 256 * 1024;

/** What tells this agent what arrived: nothing in them directs anything. */
const HEARD_WHILE_LEAVING: ReadonlySet<string> = new Set([
  "ack",
  "resend",
  "log_ack",
  "checkpoints_want",
  "ping",
]);

export function handleFrame(turn: Turn, frame: ServerFrame | UnreadableCommand): void {
  if (frame.type === "challenge") {
    return act(turn, { kind: "hello", nonce: frame.nonce, facts: helloFacts(turn) });
  }
  if (frame.type === "welcome") return handleWelcome(turn, frame);
  if (frame.type === "goaway") {
    return act(turn, { kind: "close", because: `the server says ${frame.because}` });
  }
  const { link } = turn.state;
  // Also before a welcome: without a certificate that counts there is none.
  if (frame.type === "certificate" && !(link.status === "up" && link.leaving)) {
    return act(turn, { kind: "keep_certificate", certificate: frame.certificate });
  }
  // Left over from a connection that is no longer ours.
  if (link.status === "down") return;
  if (link.leaving && !HEARD_WHILE_LEAVING.has(frame.type)) return;

  switch (frame.type) {
    case "command":
      if (!isRecordShown(turn.state)) return refuseRecord(turn, NOT_SHOWN);
      return handleCommandFrame(turn, frame.seq, frame.body);
    case "unreadable_command":
      return handleUnreadable(turn, frame);
    case "ack":
      return handleAck(turn, frame.seq);
    case "resend":
      return rewindEvents(turn, frame.from - 1);
    case "log_ack":
      return handleLogAck(turn, jobName(frame.job, frame.attempt), frame.upTo);
    case "grant":
      return handleGrantFrame(turn, frame);
    case "join":
      return handleJoin(turn, jobName(frame.job, frame.attempt), frame.joinString, frame.refused);
    case "trust":
      return handleTrust(turn, frame.envelope);
    case "checkpoint":
      return handleCheckpoint(turn, frame);
    case "checkpoints_want":
      return presentCheckpoints(turn);
    case "certificate":
      return;
    case "authorities":
      return act(turn, { kind: "keep_authorities", certificates: frame.certificates });
    // When to leave is the connection's to know: jobs and journal go on as they are.
    case "drain":
      return;
    case "ping":
      return send(turn, { type: "pong", id: frame.id, looks: looks(turn) });
    default:
      return unreachable(frame);
  }
}

function helloFacts({ state }: Turn): HelloFacts {
  const { downAcked, upHead, upAcked, journalId, issueNo, trust } = state;
  const jobs = [...state.jobs.values()].map((job) => ({
    ...heldJob(job),
    logOffset: job.log.bytes,
  }));
  const heads = { downAcked, upHead, upFrom: upAcked + 1, journalId, issueNo };
  const checkpointSizes = seenSizes(state);
  return { trustVersion: trust.version, checkpointSizes, ...heads, jobs };
}

type Welcome = Extract<ServerFrame, { type: "welcome" }>;

function handleWelcome(turn: Turn, welcome: Welcome): void {
  const { upAcked } = welcome;
  if (upAcked > turn.state.upHead || upAcked < turn.state.upAcked) {
    return restartSequences(turn, upAcked);
  }
  turn.state = {
    ...turn.state,
    link: {
      status: "up",
      sent: upAcked,
      logCreditBytes: Math.min(Math.max(1, welcome.limits.logCreditBytes), LOG_CREDIT_BYTES_MAX),
      logChunkBytes: Math.max(1, Math.min(LOG_CHUNK_BYTES, welcome.limits.frameBytes * LOG_SHARE)),
    },
  };
  handleAck(turn, upAcked);
  const known = new Map(
    welcome.logs.map(({ job, attempt, upTo }) => [jobName(job, attempt), upTo]),
  );
  for (const [name, job] of turn.state.jobs) {
    const upTo = known.get(name);
    const isOver = job.record.endedSeq !== undefined && job.record.endedSeq <= upAcked;
    // A job the server has the end of and does not list is one whose log it does not want.
    const acked = upTo ?? (isOver ? job.log.bytes : 0);
    setJob(turn, { ...job, log: { bytes: job.log.bytes, sent: acked, acked } });
  }
  if (welcome.inventoryWanted) recordInventory(turn);
  askToPublish(turn);
}

/** A build agent brings its images once per start; a failure is retried. */
export function askToPublish(turn: Turn): void {
  const { publishing, link } = turn.state;
  const { publishes } = turn.rules;
  if (publishes.length === 0 || publishing !== "idle" || link.status === "down") return;
  turn.state = { ...turn.state, publishing: "asked" };
  send(turn, { type: "grant_want", ...PUBLISH_JOB, repositories: [...publishes] });
}

/** The server knows more or less of this journal than can be: one of the two was set back. */
function restartSequences(turn: Turn, serverHas: number): void {
  const { state } = turn;
  const journalId = `${state.journalId.split("+")[0]}+${turn.now}`;
  journal(turn, { kind: "restart", journalId });
  const jobs = new Map<JobName, AgentJob>();
  for (const [name, job] of state.jobs) {
    jobs.set(name, { ...job, record: renumberedEnd(job.record, state.upAcked) });
  }
  const events = state.events.map(({ body }, index) => ({ seq: index + 1, body }));
  const heads = { downAcked: 0, upAcked: 0, upHead: events.length };
  turn.state = { ...state, journalId, ...heads, events, jobs };
  recordInventory(turn);
  const because = `the server has ${serverHas} of this agent's records, which cannot be`;
  act(turn, { kind: "close", because });
}

/** Taken off the sequence like any other command: what cannot be read today cannot be read tomorrow. */
function handleUnreadable(turn: Turn, { seq, about, because }: UnreadableCommand): void {
  takeInOrder(turn, seq, () => {
    if (about) return refuse(turn, about, "invalid", because);
    record(turn, { type: "alarm", at: turn.now, code: "invalid", because });
  });
}

function handleCommandFrame(turn: Turn, seq: number, command: ServerCommand): void {
  takeInOrder(turn, seq, () => {
    if (command.type === "job_offer") handleOffer(turn, command);
    else handleCancel(turn, command);
  });
}

function takeInOrder(turn: Turn, seq: number, take: () => void): void {
  const { downAcked } = turn.state;
  if (seq > downAcked + 1) return send(turn, { type: "resend", from: downAcked + 1 });
  if (turn.state.events.length >= EVENTS_KEPT_MAX) {
    const because = "the server does not acknowledge what it is told, and goes on asking";
    return act(turn, { kind: "close", because });
  }
  if (seq === downAcked + 1) {
    take();
    turn.state = { ...turn.state, downAcked: seq };
    journal(turn, { kind: "down_acked", seq });
  }
  send(turn, { type: "ack", seq: turn.state.downAcked });
}

type GrantFrame = Extract<ServerFrame, { type: "grant" }>;

function handleGrantFrame(turn: Turn, { job, attempt, grant, refused }: GrantFrame): void {
  if (job !== PUBLISH_JOB.job) return handleGrant(turn, jobName(job, attempt), grant, refused);
  if (turn.state.publishing !== "asked") return;
  const foreign = grant && foreignOrigin(turn.state.trust, grant);
  if (foreign !== undefined) {
    refuseOrigin(turn, foreign, "to publish images");
  } else if (grant) {
    turn.state = { ...turn.state, publishing: "running" };
    act(turn, { kind: "publish", grant });
  } else {
    // Still "asked": this server has answered, and only another connection may answer otherwise.
    act(turn, { kind: "note", level: "warn", text: `images cannot be published: ${refused}` });
  }
}
