import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { type AgentEvent, type AgentFrame, COMMAND_WINDOW } from "@exclave/api";
import { AgentId, JobId } from "@exclave/core";
import fc from "fast-check";
import {
  type HelloFacts,
  type LinkEffect,
  type LinkInput,
  type LinkRecord,
  type LinkState,
  type LiveLink,
  type OutgoingFrame,
} from "./link-state.ts";
import { advanceLink } from "./server-core.ts";

const AGENT = AgentId.parse("aaaaaaaaaaaaaaaaa");
const JOB = JobId.parse("jbbbbbbbbbbbbbbbb");
const SETTINGS = { pingMs: 1_000, reconnectSpreadMs: 100, logCreditBytes: 10, frameBytes: 100 };
const EVENT: AgentEvent = { type: "alarm", at: 1, code: "x", because: "x" };
const CHALLENGED: LinkState = { phase: "challenged", nonce: "n" };

type Hello = Extract<AgentFrame, { type: "hello" }>;

const command = (row: number, seq: number) => ({ row, seq, body: body(row) });
const body = (row: number) => ({ type: "job_cancel", job: JOB, attempt: row, graceMs: 0 }) as const;

function hello(changes: Partial<Hello> = {}): Hello {
  return {
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
    ...changes,
  };
}

function record(changes: Partial<LinkRecord> = {}): LinkRecord {
  return {
    agent: AGENT,
    isRevoked: false,
    keyGeneration: 1,
    journalId: "journal",
    sessionEpoch: 4,
    upAcked: 0,
    downHead: 0,
    downAcked: 0,
    isInventoryWanted: false,
    ...changes,
  };
}

function greet(frame: Hello, facts: Partial<HelloFacts> = {}) {
  const known = { record: record(), isProven: true, unacked: [], logs: [], settings: SETTINGS };
  const input: LinkInput = { kind: "hello", frame, facts: { ...known, ...facts }, now: 0 };
  return advanceLink(CHALLENGED, input);
}

function live(changes: Partial<LiveLink> = {}): LiveLink {
  const { state } = greet(hello());
  assert.equal(state.phase, "live");
  return { ...state, ...changes };
}

const frames = (effects: readonly LinkEffect[]): OutgoingFrame[] =>
  effects.flatMap((effect) => (effect.kind === "send" ? [effect.frame] : []));
const brief = (effects: readonly LinkEffect[]): string[] =>
  effects.map((effect) => {
    if (effect.kind === "send") {
      const { frame } = effect;
      return "seq" in frame ? `send ${frame.type} ${frame.seq}` : `send ${frame.type}`;
    }
    return effect.kind === "commit" ? `commit ${effect.write.kind}` : effect.kind;
  });

describe("a hello", () => {
  test("is asked for an inventory until one has come, also by one that joined anew and has lived", () => {
    const asks = (frame: Partial<Hello>, known: Partial<LinkRecord>) =>
      frames(greet(hello(frame), { record: record(known) }).effects).some(
        (sent) => sent.type === "welcome" && sent.inventoryWanted === true,
      );

    assert.equal(asks({}, {}), false);
    assert.equal(asks({}, { isInventoryWanted: true }), true);
    assert.equal(asks({ downAcked: 3 }, { downHead: 1 }), true);
    assert.equal(asks({ issueNo: 0 }, { journalId: null }), false);
    assert.equal(asks({ issueNo: 7 }, { journalId: null }), true);
  });

  test("that sets a session back has it committed that an inventory is wanted", () => {
    const [commit] = greet(hello({ downAcked: 3 }), { record: record({ downHead: 1 }) }).effects;

    assert.ok(commit?.kind === "commit" && commit.write.kind === "session");
    assert.equal(commit.write.isInventoryWanted, true);
  });

  test("is answered with a new epoch, committed before it is said", () => {
    const { effects, state } = greet(hello());

    assert.deepEqual(brief(effects), ["commit session", "send welcome", "look"]);
    assert.equal(state.phase === "live" && state.epoch, 5);
    const [commit] = effects;
    assert.equal(commit?.kind === "commit" && commit.epoch, 5);
  });

  for (const [why, frame, facts] of [
    ["an unknown agent", {}, { record: undefined as never }],
    ["a wrong proof", {}, { isProven: false }],
    ["a revoked agent", {}, { record: record({ isRevoked: true }) }],
    ["an older key", { keyGeneration: 1 }, { record: record({ keyGeneration: 2 }) }],
    ["a version nobody speaks", { protos: [7] }, {}],
  ] as const) {
    test(`${why} is sent away for good, and nothing is written`, () => {
      const { effects, state } = greet(hello(frame as Partial<Hello>), facts);

      assert.deepEqual(brief(effects), ["send goaway", "close"]);
      const [goaway] = frames(effects);
      assert.equal(goaway?.type === "goaway" && goaway.permanent, true);
      assert.equal(state.phase, "closed");
    });
  }

  test("has what was not acknowledged sent again, from what the agent has", () => {
    const unacked = [command(10, 3), command(11, 4)];
    const facts = { record: record({ downHead: 4, downAcked: 2 }), unacked };

    const { effects } = greet(hello({ downAcked: 3 }), facts);

    assert.deepEqual(brief(effects), ["commit session", "send welcome", "send command 4", "look"]);
  });

  test("has an offer that was cancelled meanwhile, and that it never had, withdrawn", () => {
    const offer = { type: "job_offer", job: JOB, attempt: 1, payload: "e30=" } as const;
    const cancel = { type: "job_cancel", job: JOB, attempt: 1, graceMs: 0 } as const;
    const unacked = [
      { row: 10, seq: 3, body: offer },
      { row: 11, seq: 4, body: cancel },
    ];
    const known = record({ downHead: 4, downAcked: 2 });

    const never = greet(hello({ downAcked: 2 }), { record: known, unacked });
    const had = greet(hello({ downAcked: 3 }), { record: known, unacked });

    const withdrawn = ({ effects }: typeof never) =>
      effects.flatMap((effect) =>
        effect.kind === "commit" && effect.write.kind === "session" ? effect.write.withdrawn : [],
      );
    assert.deepEqual(withdrawn(never), [{ row: 10, seq: 3, body: cancel }]);
    assert.deepEqual(
      frames(never.effects).flatMap((frame) => (frame.type === "command" ? [frame.body.type] : [])),
      ["job_cancel", "job_cancel"],
    );
    assert.deepEqual(withdrawn(had), []);
  });

  test("with a new journal starts both sequences anew, in the open", () => {
    const known = record({ journalId: "old", upAcked: 9, downHead: 7, downAcked: 5 });
    const facts = { record: known, unacked: [command(10, 6), command(11, 7)] };

    const { effects, state } = greet(hello(), facts);

    const [commit] = effects;
    assert.ok(commit?.kind === "commit" && commit.write.kind === "session");
    assert.match(commit.write.reset ?? "", /journal is a new one/);
    assert.deepEqual(
      commit.write.renumbered.map(({ row, seq }) => [row, seq]),
      [
        [10, 1],
        [11, 2],
      ],
    );
    assert.equal(state.phase === "live" && state.upAcked, 0);
    assert.deepEqual(brief(effects).slice(2, 4), ["send command 1", "send command 2"]);
  });

  test("with a journal that went back in time is a reset too, so that nothing is taken for known", () => {
    const { effects, state } = greet(hello({ upHead: 3 }), { record: record({ upAcked: 8 }) });

    const [commit] = effects;
    assert.ok(commit?.kind === "commit" && commit.write.kind === "session");
    assert.match(commit.write.reset ?? "", /older than what it sent/);
    assert.equal(state.phase === "live" && state.upAcked, 3);
  });

  test("that took commands from somebody else keeps its events: what is unacknowledged is still wanted", () => {
    const known = record({ upAcked: 5, downHead: 2 });

    const { effects, state } = greet(hello({ downAcked: 9, upHead: 8, upFrom: 6 }), {
      record: known,
    });

    const [commit] = effects;
    assert.ok(commit?.kind === "commit" && commit.write.kind === "session");
    assert.match(commit.write.reset ?? "", /never numbered/);
    assert.equal(state.phase === "live" && state.upAcked, 5);
    assert.equal(state.phase === "live" && state.downHead, 9);
  });

  test("comes first and once", () => {
    const early = advanceLink(CHALLENGED, {
      kind: "frame",
      frame: { type: "ack", seq: 0 },
      now: 0,
    });
    const late = advanceLink(live(), {
      kind: "hello",
      frame: hello(),
      facts: { record: record(), isProven: true, unacked: [], logs: [], settings: SETTINGS },
      now: 0,
    });

    assert.equal(early.state.phase, "closed");
    assert.equal(late.state.phase, "closed");
  });
});

describe("an event", () => {
  const event = (seq: number) =>
    ({ kind: "frame", frame: { type: "event", seq, body: EVENT }, now: 0 }) as const;

  test("that is next is committed, then acknowledged", () => {
    const { effects, state } = advanceLink(live({ upAcked: 4 }), event(5));

    assert.deepEqual(brief(effects), ["commit event", "send ack 5"]);
    assert.equal(state.phase === "live" && state.upAcked, 5);
  });

  test("that is known is acknowledged again and changes nothing", () => {
    const { effects } = advanceLink(live({ upAcked: 4 }), event(2));

    assert.deepEqual(brief(effects), ["send ack 4"]);
  });

  test("after a gap is asked for from where the gap begins", () => {
    const { effects } = advanceLink(live({ upAcked: 4 }), event(7));

    assert.deepEqual(frames(effects), [{ type: "resend", from: 5 }]);
  });
});

describe("commands", () => {
  test("get their numbers committed before they are sent", () => {
    const rows = [
      { row: 10, body: body(10) },
      { row: 11, body: body(11) },
    ];

    const { effects } = advanceLink(live({ downHead: 3 }), { kind: "waiting", rows });

    assert.deepEqual(brief(effects), ["commit offer", "send command 4", "send command 5"]);
  });

  test("that have a number already are not numbered twice", () => {
    const state = live({ downHead: 1, unacked: [command(10, 1)] });

    const { effects } = advanceLink(state, {
      kind: "waiting",
      rows: [{ row: 10, body: body(10) }],
    });

    assert.deepEqual(effects, []);
  });

  test("stop at the window and go on with each acknowledgement", () => {
    const rows = Array.from({ length: COMMAND_WINDOW + 5 }, (_, row) => ({ row, body: body(row) }));

    const offered = advanceLink(live(), { kind: "waiting", rows });
    const acked = advanceLink(offered.state, {
      kind: "frame",
      frame: { type: "ack", seq: 2 },
      now: 0,
    });

    assert.equal(frames(offered.effects).length, COMMAND_WINDOW);
    assert.deepEqual(brief(acked.effects), ["commit acked", "look"]);
    assert.deepEqual(acked.effects.at(-1), { kind: "look", limit: 2 });
  });

  test("more than a window from before are sent as room comes up", () => {
    const unacked = Array.from({ length: COMMAND_WINDOW + 2 }, (_, row) => command(row, row + 1));
    const { state } = greet(hello(), { unacked, record: record({ downHead: unacked.length }) });

    const { effects } = advanceLink(state, {
      kind: "frame",
      frame: { type: "ack", seq: 1 },
      now: 0,
    });

    assert.deepEqual(brief(effects), ["commit acked", `send command ${COMMAND_WINDOW + 1}`]);
  });

  test("are sent again from where the agent asks", () => {
    const state = live({ downHead: 2, unacked: [command(1, 1), command(2, 2)] });

    const { effects } = advanceLink(state, {
      kind: "frame",
      frame: { type: "resend", from: 2 },
      now: 0,
    });

    assert.deepEqual(brief(effects), ["send command 2"]);
  });

  test("are sent again once a second at most, and what was asked for meanwhile is not forgotten", () => {
    const state = live({ unacked: [command(1, 1), command(2, 2)], downHead: 2 });
    const ask = (from: number, now: number) =>
      ({ kind: "frame", frame: { type: "resend", from }, now }) as const;

    const first = advanceLink(state, ask(1, 5_000));
    const again = advanceLink(first.state, ask(2, 5_010));
    const early = advanceLink(again.state, { kind: "tick", now: 5_500 });
    const late = advanceLink(again.state, { kind: "tick", now: 6_000 });

    assert.deepEqual(brief(first.effects), ["send command 1", "send command 2"]);
    assert.deepEqual(brief(again.effects), []);
    assert.ok(!brief(early.effects).some((effect) => effect.includes("command")));
    assert.deepEqual(brief(late.effects), ["send command 2"]);
  });

  test("of many bytes go out as far as the window's bytes go", () => {
    const payload = "A".repeat(200 * 1024);
    const rows = Array.from({ length: 10 }, (_, row) => ({
      row,
      body: { type: "job_offer", job: JOB, attempt: row + 1, payload } as const,
    }));

    const { effects } = advanceLink(live(), { kind: "waiting", rows });

    assert.equal(frames(effects).length, 5);
  });

  test("acknowledged and never sent end the connection", () => {
    const { state } = advanceLink(live(), {
      kind: "frame",
      frame: { type: "ack", seq: 1 },
      now: 0,
    });

    assert.equal(state.phase, "closed");
  });
});

describe("silence", () => {
  test("is broken by pings, and ended when nobody answers (L-5.7)", () => {
    const pinged = advanceLink(live(), { kind: "tick", now: 1_000 });
    const quiet = advanceLink(pinged.state, { kind: "tick", now: 1_500 });
    const over = advanceLink(pinged.state, { kind: "tick", now: 2_501 });

    assert.deepEqual(frames(pinged.effects), [{ type: "ping", id: 1 }]);
    assert.deepEqual(quiet.effects, []);
    assert.deepEqual(brief(over.effects), ["close"]);
  });

  test("is not what a pong sounds like", () => {
    const pinged = advanceLink(live(), { kind: "tick", now: 1_000 });
    const heard = advanceLink(pinged.state, {
      kind: "frame",
      frame: { type: "pong", id: 1 },
      now: 2_000,
    });

    const { state } = advanceLink(heard.state, { kind: "tick", now: 3_000 });

    assert.equal(state.phase, "live");
  });
});

test("a log, however it is cut, repeated or reordered, is written once and in order", () => {
  const text = "abcdefghijklmnopqrstuvwxyz";
  const chunk = fc.record({ offset: fc.nat(25), length: fc.integer({ min: 1, max: 9 }) });
  fc.assert(
    fc.property(fc.array(chunk, { maxLength: 60 }), (chunks) => {
      let file = "";
      const state = live();
      for (const { offset, length } of chunks) {
        const bytes = new TextEncoder().encode(text.slice(offset, offset + length));
        const frame = { job: JOB, attempt: 1, offset, bytes };
        const { effects } = advanceLink(state, {
          kind: "log",
          frame,
          durable: file.length,
          now: 0,
        });
        for (const effect of effects) {
          if (effect.kind === "append_log") {
            assert.equal(effect.offset, file.length);
            file += new TextDecoder().decode(effect.bytes);
          }
        }
        const ack = frames(effects).at(-1);
        assert.ok(ack?.type === "log_ack" && ack.upTo === file.length);
      }
      assert.ok(text.startsWith(file));
    }),
  );
});

test("a log of a job that is not this agent's is neither kept nor acknowledged", () => {
  const frame = { job: JOB, attempt: 1, offset: 0, bytes: new Uint8Array(3) };

  assert.deepEqual(advanceLink(live(), { kind: "log", frame, now: 0 }).effects, []);
  // One that is not on record at all, because a backup was restored: the agent is to be done with it.
  const unwanted = advanceLink(live(), { kind: "log", frame, isUnwanted: true, now: 0 }).effects;
  assert.deepEqual(brief(unwanted), ["send log_ack"]);
});

test("whatever comes, no acknowledgement goes out before its commit", () => {
  const input = fc.oneof(
    fc.nat(12).map(
      (seq): LinkInput => ({
        kind: "frame",
        frame: { type: "event", seq: seq + 1, body: EVENT },
        now: 0,
      }),
    ),
    fc.nat(3).map((seq): LinkInput => ({ kind: "frame", frame: { type: "ack", seq }, now: 0 })),
    fc.nat(9).map((row): LinkInput => ({ kind: "waiting", rows: [{ row, body: body(row) }] })),
  );
  fc.assert(
    fc.property(fc.array(input, { maxLength: 80 }), (inputs) => {
      let state: LinkState = live();
      let committed = 0;
      let numbered = 0;
      for (const next of inputs) {
        const step = advanceLink(state, next);
        for (const effect of step.effects) {
          if (effect.kind === "commit" && effect.write.kind === "event") {
            assert.equal(effect.write.seq, committed + 1);
            committed = effect.write.seq;
          }
          if (effect.kind === "commit" && effect.write.kind === "offer")
            numbered = effect.write.downHead;
          if (effect.kind !== "send") continue;
          if (effect.frame.type === "ack") assert.ok(effect.frame.seq <= committed);
          if (effect.frame.type === "command") assert.ok(effect.frame.seq <= numbered);
        }
        state = step.state;
      }
    }),
  );
});
