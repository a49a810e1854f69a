// Every phase of a job in the agent, and every state of its link, meet every input. The types have no
// optional key: a new phase, a new input, a new frame or a new command does not compile until its row or
// column is decided here. A cell says what changes and what is to be done: "→ phase" for the job, "→ down" for
// the link, "keep" for journal writes, "say" for events; NOTHING where an input is of no concern.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { ServerCommand, ServerFrame, UnreadableCommand } from "@exclave/api";
import { jobName } from "@exclave/core";
import { job, jobId, NOW, recordOf } from "../testing/builders.ts";
import { agentWith, emptyJournal, nameOf, SUCCEEDED } from "../testing/core-agent.ts";
import { NOTHING_SAID } from "./agent-job-end.ts";
import type { AgentEffect, AgentHappening, AgentJob, AgentState } from "./agent-state.ts";

/** A sync asks for access before its launch: of an install's jobs it alone waits in every phase. */
const MANIFEST = job("sync", { operation: "sync" });
const NAME = nameOf(MANIFEST);
const ATTEMPT = { job: MANIFEST.id, attempt: MANIFEST.attempt };
const OTHER = job("other", { issueNo: MANIFEST.issueNo + 1 });
const GRANT = { registryUrl: "http://vendor.test", credential: "c", expiresAt: NOW + 60_000 };

type Agent = ReturnType<typeof agentWith>;
type Row = AgentJob["phase"] | "down" | "up" | "leaving";

const STATES: Record<Row, () => Agent> = {
  down: () => agentWith(),
  up: () => connected(agentWith()),
  /** Connected to a server whose record it refuses. */
  leaving() {
    const agent = STATES.up();
    agent.frame(FRAMES.checkpoint);
    return agent;
  },
  ready() {
    const agent = connected(agentWith());
    agent.offer(MANIFEST);
    return agent;
  },
  recovering() {
    const journal = emptyJournal();
    journal.commit([
      { kind: "job", record: recordOf(MANIFEST, { status: "launching", launches: 1 }) },
    ]);
    return connected(agentWith({ journal }));
  },
  launching() {
    const agent = STATES.ready();
    agent.frame({ type: "grant", ...ATTEMPT, grant: GRANT });
    return agent;
  },
  running() {
    const agent = STATES.launching();
    agent.feed({ kind: "launched", name: NAME });
    return agent;
  },
  ended() {
    const agent = STATES.running();
    agent.feed({ kind: "exited", name: NAME, ended: SUCCEEDED });
    return agent;
  },
};

function connected(agent: Agent): Agent {
  agent.welcome(0);
  return agent;
}

type Frame = ServerFrame | UnreadableCommand;
type FrameType = Exclude<Frame["type"], "command">;
type Happening = Exclude<AgentHappening["kind"], "frame">;
type Input = FrameType | ServerCommand["type"] | Happening;
type Feed = (agent: Agent) => readonly AgentEffect[];

const envelope = { payloadType: "x", payload: "", signatures: [] };

const FRAMES: { readonly [Type in FrameType]: Extract<Frame, { type: Type }> } = {
  challenge: { type: "challenge", nonce: "n" },
  welcome: {
    type: "welcome",
    proto: 1,
    sessionEpoch: 2,
    serverTimeMs: NOW,
    upAcked: 0,
    capabilities: [],
    limits: { logCreditBytes: 100, frameBytes: 64 },
    pingMs: 1_000,
    reconnectSpreadMs: 0,
    logs: [],
  },
  ack: { type: "ack", seq: 1 },
  resend: { type: "resend", from: 1 },
  log_ack: { type: "log_ack", ...ATTEMPT, upTo: 0 },
  grant: { type: "grant", ...ATTEMPT, grant: GRANT },
  join: { type: "join", ...ATTEMPT, joinString: "s" },
  trust: { type: "trust", envelope },
  checkpoint: { type: "checkpoint", envelope, heads: [] },
  checkpoints_want: { type: "checkpoints_want" },
  certificate: { type: "certificate", certificate: "pem" },
  authorities: { type: "authorities", certificates: ["pem"] },
  ping: { type: "ping", id: 1 },
  drain: { type: "drain", afterMs: 1, because: "b" },
  goaway: { type: "goaway", code: "c", because: "b", retryAfterMs: 1, permanent: false },
  unreadable_command: { type: "unreadable_command", seq: 9, about: undefined, because: "b" },
};

const HAPPENINGS: { readonly [Kind in Happening]: Extract<AgentHappening, { kind: Kind }> } = {
  restored: { kind: "restored", found: [NAME], fresh: false },
  foreign_exited: { kind: "foreign_exited", name: NAME, because: "b" },
  disconnected: { kind: "disconnected" },
  inspected: { kind: "inspected", name: NAME, run: { kind: "running" } },
  launched: { kind: "launched", name: NAME },
  not_launched: {
    kind: "not_launched",
    name: NAME,
    why: { code: "unavailable", message: "m", ...NOTHING_SAID },
  },
  spooled: { kind: "spooled", name: NAME, bytes: 10 },
  exited: { kind: "exited", name: NAME, ended: SUCCEEDED },
  status_seen: {
    kind: "status_seen",
    component: "api",
    name: jobName(jobId("status"), 1),
    seen: { health: "healthy", because: "" },
  },
  noticed: { kind: "noticed", code: "c", because: "b" },
  published: { kind: "published", images: [] },
  publish_failed: { kind: "publish_failed" },
  disk: { kind: "disk", isLow: true },
  tick: { kind: "tick" },
};

const COMMANDS: Record<ServerCommand["type"], Feed> = {
  job_offer: (agent) => agent.offer(OTHER),
  job_cancel: (agent) => agent.command(agent.director.cancel(MANIFEST.id)),
};

const INPUTS: Record<Input, Feed> = {
  ...mapped(FRAMES, (frame) => (agent) => agent.frame(sequenced(agent, frame))),
  ...mapped(HAPPENINGS, (happening) => (agent) => agent.feed(happening)),
  ...COMMANDS,
};

function sequenced(agent: Agent, frame: Frame): Frame {
  const { downAcked, upAcked } = agent.journal.load();
  if (frame.type === "unreadable_command") return { ...frame, seq: downAcked + 1 };
  return frame.type === "welcome" ? { ...frame, upAcked } : frame;
}

function mapped<Key extends string, Value>(
  values: Readonly<Record<Key, Value>>,
  map: (value: Value) => Feed,
): Record<Key, Feed> {
  const entries = Object.entries<Value>(values).map(([key, value]) => [key, map(value)]);
  return Object.fromEntries(entries) as Record<Key, Feed>;
}

const NOTHING = "-";

/** What no job changes. */
// biome-ignore format: a table reads as a table.
const WHILE_UP = {
  challenge: "hello", log_ack: NOTHING, join: NOTHING, trust: "note, keep alarm, say alarm",
  checkpoint: "→ leaving, note, keep alarm, say alarm", checkpoints_want: NOTHING, certificate: "keep_certificate", authorities: "keep_authorities", ping: "send pong", drain: NOTHING, goaway: "close",
  unreadable_command: "keep alarm+down_acked, send ack, say alarm", foreign_exited: NOTHING, status_seen: NOTHING,
  noticed: "note, keep alarm, say alarm", published: "keep images_published, say images_published",
  publish_failed: NOTHING, disk: NOTHING, tick: NOTHING,
  job_offer: "→ other launching, keep issue+job+job_accepted+down_acked, send ack, keep job, launch, say job_accepted",
};

// biome-ignore format: a table reads as a table.
const TABLE: Record<Row, Record<Input, string>> = {
  down: {
    challenge: "hello", welcome: "→ up", ack: NOTHING, resend: NOTHING, log_ack: NOTHING, grant: NOTHING,
    join: NOTHING, trust: NOTHING, checkpoint: NOTHING, checkpoints_want: NOTHING, certificate: "keep_certificate", authorities: NOTHING, ping: NOTHING, drain: NOTHING, goaway: "close", unreadable_command: NOTHING,
    restored: "remove", foreign_exited: NOTHING, disconnected: NOTHING, inspected: NOTHING, launched: NOTHING,
    not_launched: NOTHING, spooled: NOTHING, exited: NOTHING, status_seen: NOTHING, noticed: "note, keep alarm",
    published: "keep images_published", publish_failed: NOTHING, disk: NOTHING, tick: NOTHING, job_offer: NOTHING,
    job_cancel: NOTHING,
  },
  up: {
    ...WHILE_UP,
    welcome: NOTHING, ack: NOTHING, resend: NOTHING, grant: NOTHING, restored: "remove", disconnected: "→ down",
    inspected: NOTHING, launched: NOTHING, not_launched: NOTHING, spooled: NOTHING, exited: NOTHING,
    job_cancel: "keep job_ended, remove, keep down_acked, send ack, say job_ended",
  },
  leaving: {
    challenge: "hello", welcome: "→ up, say alarm", ack: "keep events_acked", resend: "say alarm", log_ack: NOTHING,
    grant: NOTHING, join: NOTHING, trust: NOTHING, checkpoint: NOTHING, checkpoints_want: NOTHING, certificate: NOTHING, authorities: NOTHING, ping: "send pong",
    drain: NOTHING, goaway: "close", unreadable_command: NOTHING, restored: "remove", foreign_exited: NOTHING,
    disconnected: "→ down", inspected: NOTHING, launched: NOTHING, not_launched: NOTHING, spooled: NOTHING,
    exited: NOTHING, status_seen: NOTHING, noticed: "note, keep alarm, say alarm",
    published: "keep images_published, say images_published", publish_failed: NOTHING, disk: NOTHING, tick: NOTHING,
    job_offer: NOTHING, job_cancel: NOTHING,
  },
  ready: {
    ...WHILE_UP,
    welcome: "say job_accepted", ack: "keep events_acked", resend: "say job_accepted",
    grant: "→ launching, keep job, launch", restored: NOTHING, disconnected: "→ down, note", inspected: NOTHING,
    launched: NOTHING, not_launched: NOTHING, spooled: "send_log", exited: NOTHING,
    job_cancel: "→ ended, keep job+job_ended+job+down_acked, send ack, say job_ended",
  },
  recovering: {
    ...WHILE_UP,
    welcome: NOTHING, ack: NOTHING, resend: NOTHING, grant: NOTHING, restored: "inspect", disconnected: "→ down",
    inspected: "→ running, keep job+job_started, follow, say job_started", launched: NOTHING, not_launched: NOTHING,
    spooled: "send_log", exited: NOTHING, job_cancel: "keep job+down_acked, send ack",
  },
  launching: {
    ...WHILE_UP,
    welcome: "say job_accepted", ack: "keep events_acked", resend: "say job_accepted", grant: NOTHING,
    restored: NOTHING, disconnected: "→ down", inspected: NOTHING,
    launched: "→ running, keep job+job_started, follow, say job_started",
    not_launched: "→ ended, keep job_ended+job, say job_ended", spooled: "send_log", exited: NOTHING,
    job_cancel: "keep job+down_acked, send ack",
  },
  running: {
    ...WHILE_UP,
    welcome: "say job_accepted, say job_started", ack: "keep events_acked",
    resend: "say job_accepted, say job_started", grant: NOTHING, restored: NOTHING, disconnected: "→ down",
    inspected: NOTHING, launched: NOTHING, not_launched: NOTHING, spooled: "send_log",
    exited: "→ ended, keep job_ended+job, say job_ended", job_cancel: "keep job, stop, keep down_acked, send ack",
  },
  ended: {
    ...WHILE_UP,
    welcome: "say job_accepted, say job_started, say job_ended", ack: "keep events_acked",
    resend: "say job_accepted, say job_started, say job_ended", grant: NOTHING, restored: NOTHING,
    disconnected: "→ down", inspected: NOTHING, launched: NOTHING, not_launched: NOTHING, spooled: "send_log",
    exited: NOTHING, job_cancel: "keep down_acked, send ack",
  },
};

describe("an agent", () => {
  for (const row of Object.keys(STATES) as Row[]) {
    for (const input of Object.keys(INPUTS) as Input[]) {
      const expected = TABLE[row][input];
      test(`that is ${row} meets ${input}: ${expected}`, () => {
        const agent = STATES[row]();
        const before = agent.state;

        const effects = INPUTS[input](agent);

        assert.equal(inWords(before, agent.state, effects), expected);
      });
    }
  }
});

function inWords(before: AgentState, after: AgentState, effects: readonly AgentEffect[]): string {
  const linkOf = ({ link }: AgentState) =>
    link.status === "up" && link.leaving ? "leaving" : link.status;
  const phase = ({ jobs }: AgentState) => jobs.get(NAME)?.phase ?? "gone";
  const changes = [
    linkOf(before) === linkOf(after) ? [] : `→ ${linkOf(after)}`,
    phase(before) === phase(after) ? [] : `→ ${phase(after)}`,
    after.jobs.has(nameOf(OTHER)) ? `→ other ${after.jobs.get(nameOf(OTHER))?.phase}` : [],
  ].flat();
  return [...changes, ...effects.map(brief)].join(", ") || NOTHING;
}

function brief(effect: AgentEffect): string {
  if (effect.kind === "send") {
    const { frame } = effect;
    return frame.type === "event" ? `say ${frame.body.type}` : `send ${frame.type}`;
  }
  if (effect.kind !== "journal") return effect.kind;
  return `keep ${effect.writes.map((write) => ("body" in write ? write.body.type : write.kind)).join("+")}`;
}
