// Every phase of the link machine meets every input. The types have no optional key: a new phase, a new
// input or a new frame does not compile until its row or column is decided here.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { AgentFrame } from "@exclave/api";
import { AgentId, JobId } from "@exclave/core";
import type { Hello, LinkEffect, LinkInput, LinkState, LiveLink } from "./link-state.ts";
import { advanceLink } from "./server-core.ts";

const AGENT = AgentId.parse("aaaaaaaaaaaaaaaaa");
const JOB = JobId.parse("jbbbbbbbbbbbbbbbb");
const SETTINGS = { pingMs: 1_000, reconnectSpreadMs: 100, logCreditBytes: 10, frameBytes: 100 };
const NOW = 10_000;
const CANCEL = { type: "job_cancel", job: JOB, attempt: 1, graceMs: 0 } as const;

const HELLO: Hello = {
  type: "hello",
  protos: [1],
  agent: AGENT,
  version: "1",
  platform: "p",
  runtime: "r",
  capabilities: [],
  keyGeneration: 1,
  bootId: "b",
  downAcked: 0,
  upHead: 0,
  upFrom: 1,
  journalId: "journal",
  jobs: [],
  clockMs: 0,
  proof: "",
};
const RECORD = {
  agent: AGENT,
  isRevoked: false,
  keyGeneration: 1,
  journalId: "journal",
  sessionEpoch: 4,
  upAcked: 0,
  downHead: 0,
  downAcked: 0,
  isInventoryWanted: false,
};
const FACTS = { record: RECORD, isProven: true, unacked: [], logs: [], settings: SETTINGS };
const hello: LinkInput = { kind: "hello", frame: HELLO, facts: FACTS, now: NOW };

const LIVE = advanceLink({ phase: "challenged", nonce: "n" }, hello).state as LiveLink;
const STATES = {
  challenged: { phase: "challenged", nonce: "n" },
  live: { ...LIVE, downHead: 1, unacked: [{ row: 1, seq: 1, body: CANCEL }] },
  closed: { phase: "closed" },
} as const satisfies Record<LinkState["phase"], LinkState>;

type FrameType = Exclude<AgentFrame["type"], "hello">;
const FRAMES: { readonly [Type in FrameType]: Extract<AgentFrame, { type: Type }> } = {
  event: { type: "event", seq: 1, body: { type: "alarm", at: 1, code: "x", because: "x" } },
  ack: { type: "ack", seq: 1 },
  resend: { type: "resend", from: 1 },
  grant_want: { type: "grant_want", job: JOB, attempt: 1 },
  join_want: { type: "join_want", job: JOB, attempt: 1 },
  checkpoints: { type: "checkpoints", list: [] },
  certificate_kept: { type: "certificate_kept", until: 1 },
  authorities_kept: { type: "authorities_kept", fingerprints: [] },
  pong: { type: "pong", id: 1, looks: [{ component: "api", agoMs: 1 }] },
};
const log = { job: JOB, attempt: 1, offset: 0, bytes: new Uint8Array([1]) };

type InputName = FrameType | "opened" | "hello" | "log" | "waiting" | "tick" | "silence";
const INPUTS: Record<InputName, LinkInput> = {
  ...(Object.fromEntries(
    Object.entries(FRAMES).map(([type, frame]) => [type, { kind: "frame", frame, now: NOW }]),
  ) as Record<FrameType, LinkInput>),
  opened: { kind: "opened", nonce: "n" },
  hello,
  log: { kind: "log", frame: log, durable: 0, now: NOW },
  waiting: { kind: "waiting", rows: [{ row: 2, body: CANCEL }] },
  tick: { kind: "tick", now: NOW + SETTINGS.pingMs },
  silence: { kind: "tick", now: NOW + SETTINGS.pingMs * 3 },
};

// biome-ignore format: a table reads as a table.
const TABLE: Record<LinkState["phase"], Record<InputName, string>> = {
  challenged: {
    opened: "challenged: send challenge", hello: "live: commit session, send welcome, look",
    event: "closed: send goaway, close", ack: "closed: send goaway, close", resend: "closed: send goaway, close",
    grant_want: "closed: send goaway, close", join_want: "closed: send goaway, close", checkpoints: "closed: send goaway, close", certificate_kept: "closed: send goaway, close", authorities_kept: "closed: send goaway, close", pong: "closed: send goaway, close",
    log: "closed: send goaway, close", waiting: "challenged:", tick: "challenged:", silence: "challenged:",
  },
  live: {
    opened: "live:", hello: "closed: send goaway, close",
    event: "live: commit event, send ack", ack: "live: commit acked, look", resend: "live: send command",
    grant_want: "live: grant", join_want: "live: join", checkpoints: "live: checkpoints", certificate_kept: "live:", authorities_kept: "live: authorities", pong: "live: looks",
    log: "live: append_log, send log_ack", waiting: "live: commit offer, send command",
    tick: "live: send ping", silence: "closed: close",
  },
  closed: {
    opened: "closed:", hello: "closed:", event: "closed:", ack: "closed:", resend: "closed:", grant_want: "closed:",
    join_want: "closed:", checkpoints: "closed:", certificate_kept: "closed:", authorities_kept: "closed:", pong: "closed:", log: "closed:", waiting: "closed:", tick: "closed:", silence: "closed:",
  },
};

describe("a link", () => {
  for (const [phase, row] of Object.entries(TABLE) as [
    LinkState["phase"],
    (typeof TABLE)["live"],
  ][]) {
    for (const [name, expected] of Object.entries(row) as [InputName, string][]) {
      test(`that is ${phase} meets ${name}: ${expected}`, () => {
        const { state, effects } = advanceLink(STATES[phase], INPUTS[name]);

        assert.equal(`${state.phase}: ${effects.map(brief).join(", ")}`.trim(), expected);
      });
    }
  }
});

function brief(effect: LinkEffect): string {
  if (effect.kind === "send") return `send ${effect.frame.type}`;
  return effect.kind === "commit" ? `commit ${effect.write.kind}` : effect.kind;
}
