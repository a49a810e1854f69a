import assert from "node:assert/strict";
import { describe, test } from "node:test";
import {
  CHECKPOINT_PAYLOAD_TYPE,
  type Checkpoint,
  checkpointBytes,
  Instant,
  newTrust,
  preAuthEncoding,
} from "@exclave/core";
import { job, NOW } from "../testing/builders.ts";
import { agentWith, kinds, sent, types } from "../testing/core-agent.ts";
import { type TestKey, testKey } from "../testing/signed-trust.ts";
import type { AgentRules } from "./agent-state.ts";

const hash = (letter: string) => Buffer.from(letter).toString("hex").repeat(32);
const role = { root: testKey(), director: testKey(), release: testKey(), checkpoint: testKey() };
const trust = newTrust(role, { origins: ["http://vendor.test"], now: Instant.parse(NOW) });

function shown(
  size: number,
  letter: string,
  {
    heads = [],
    by = role.checkpoint,
    ...given
  }: Partial<Checkpoint> & {
    heads?: [number, string][];
    by?: TestKey;
  } = {},
) {
  const checkpoint = {
    serverId: "one",
    size,
    head: hash(letter),
    at: Instant.parse(NOW + size),
    setBack: [],
    ...given,
  };
  const payload = checkpointBytes(checkpoint);
  const sig = Buffer.from(by.sign(preAuthEncoding(CHECKPOINT_PAYLOAD_TYPE, payload)));
  return {
    type: "checkpoint" as const,
    envelope: {
      payloadType: CHECKPOINT_PAYLOAD_TYPE,
      payload: Buffer.from(payload).toString("base64"),
      signatures: [{ keyid: by.keyid, sig: sig.toString("base64") }],
    },
    heads: heads.map(([size, letter]) => ({ size, head: hash(letter) })),
  };
}

/** An agent that saw row 10 end in "a", disconnected, and was welcomed again. */
function agentThatSaw10() {
  const agent = agentWith({ trust });
  agent.welcome();
  agent.frame(shown(10, "a"));
  agent.feed({ kind: "disconnected" });
  agent.welcome();
  return agent;
}

describe("an agent and the server's record", () => {
  test("keeps what it was shown, asks by size alone, and takes work from a record that goes on", () => {
    const agent = agentThatSaw10().restart();

    const [hello] = agent.frame({ type: "challenge", nonce: "n" });
    agent.welcome();
    const effects = agent.frame(shown(12, "b", { heads: [[10, "a"]] }));

    assert.deepEqual(hello?.kind === "hello" && hello.facts.checkpointSizes, [10]);
    assert.ok(!JSON.stringify(hello).includes(hash("a")));
    assert.ok(!kinds(effects).includes("close"));
    assert.deepEqual(
      agent.journal.load().checkpoints.map(({ size }) => size),
      [10, 12],
    );
  });

  test("goes on with a record that grows while it is connected, shown from the last one on", () => {
    const agent = agentThatSaw10();
    agent.frame(shown(12, "b", { heads: [[10, "a"]] }));

    const effects = agent.frame(shown(14, "c", { heads: [[12, "b"]] }));

    assert.ok(!kinds(effects).includes("close"), kinds(effects).join(" "));
    assert.equal(agent.journal.load().checkpoints.at(-1)?.size, 14);
  });

  test("judges offers by no earlier time than the server was seen to have, whatever its clock says", () => {
    const judgedAt: number[] = [];
    const judge: AgentRules["judge"] = (_, { now }) => {
      judgedAt.push(now);
      return { kind: "refused", code: "expired", because: "this test looks at the time only" };
    };
    const agent = agentWith({ trust, rules: { judge } });
    agent.welcome();
    agent.frame(shown(10, "a", { at: Instant.parse(NOW + 60_000) }));

    agent.offer(job("early"));

    assert.deepEqual(judgedAt, [NOW + 60_000]);
  });

  test("says once that its clock is behind what the server was seen to have", () => {
    const agent = agentWith({ trust });
    agent.welcome();
    const ahead = NOW + 6 * 60_000;
    agent.frame(shown(10, "a", { at: Instant.parse(ahead) }), ahead);
    assert.deepEqual(types(agent.told()), []);

    agent.feed({ kind: "tick" });
    agent.feed({ kind: "tick" });
    const restarted = agent.restart();
    restarted.feed({ kind: "tick" }, ahead);
    restarted.feed({ kind: "tick" }, ahead - 4 * 60_000);

    const [alarm, ...others] = restarted.told();
    assert.equal(alarm?.type === "alarm" && alarm.code, "clock_set_back");
    assert.deepEqual(others, []);
  });

  const LIES = {
    "was rewritten and rehashed": shown(12, "z", { heads: [[10, "y"]] }),
    "was shortened": shown(7, "s"),
    "is another server's": shown(12, "b", { heads: [[10, "a"]], serverId: "two" }),
    "is signed by a stranger": shown(12, "b", { heads: [[10, "a"]], by: testKey() }),
    "is signed by the director": shown(12, "b", { heads: [[10, "a"]], by: role.director }),
  };
  for (const [lie, frame] of Object.entries(LIES)) {
    test(`refuses a server whose record ${lie}: no work is taken, one alarm is journaled`, () => {
      const agent = agentThatSaw10();
      const manifest = job();

      agent.frame(frame);
      const early = agent.feed({ kind: "tick" }, NOW + 999);
      const late = agent.feed({ kind: "tick" }, NOW + 1_000);
      agent.feed({ kind: "disconnected" });
      agent.welcome();
      agent.frame(frame);
      const offered = agent.offer(manifest);

      assert.ok(!kinds(early).includes("close"), "first it says why");
      assert.ok(kinds(late).includes("close"));
      assert.deepEqual(sent(offered), []);
      assert.equal(agent.state.jobs.size, 0);
      assert.equal(agent.journal.load().downAcked, 0);
      assert.deepEqual(types(agent.told()), ["alarm"]);
    });
  }

  test("takes nothing from a server it is about to leave, also when it never saw its record before", () => {
    const agent = agentWith({ trust });
    agent.welcome();
    agent.frame(LIES["is signed by a stranger"]);

    agent.offer(job());
    agent.frame(shown(12, "b"));

    assert.equal(agent.state.jobs.size, 0);
    assert.deepEqual(types(agent.told()), ["alarm"]);
    assert.deepEqual(agent.journal.load().checkpoints, []);
  });

  test("takes no work from a server that shows nothing of its record", () => {
    const agent = agentThatSaw10();

    agent.offer(job());
    const effects = agent.feed({ kind: "tick" }, NOW + 1_000);

    assert.ok(kinds(effects).includes("close"));
    assert.equal(agent.state.jobs.size, 0);
  });

  test("presents what it kept to a server that has shown its record, refused or not, and to no other", () => {
    const want = { type: "checkpoints_want" } as const;
    const first = shown(10, "a");
    const presented = (frame?: ReturnType<typeof shown>) => {
      const agent = agentThatSaw10();
      if (frame) agent.frame(frame);
      return sent(agent.frame(want)).flatMap((one) => (one.type === "checkpoints" ? one.list : []));
    };
    const next = shown(12, "b", { heads: [[10, "a"]] });

    assert.deepEqual(presented(next), [first.envelope, next.envelope]);
    assert.deepEqual(presented(LIES["was rewritten and rehashed"]), [first.envelope]);
    assert.deepEqual(presented(), []);
    assert.deepEqual(presented(LIES["is signed by a stranger"]), []);
  });

  test("presents the last four, and no more than fit a frame", () => {
    const agent = agentWith({ trust });
    agent.welcome();
    const hour = 3_600_000;
    const frames = [1, 2, 3, 4, 5, 6].map((n) => {
      const at = Instant.parse(NOW + n * 2 * hour);
      const heads: [number, string][] = Array.from({ length: n - 1 }, (_, i) => [i + 1, "a"]);
      return shown(n, "a", { at, heads });
    });
    for (const frame of frames) agent.frame(frame);
    const list = () =>
      sent(agent.frame({ type: "checkpoints_want" })).flatMap((one) =>
        one.type === "checkpoints" ? one.list : [],
      );

    assert.deepEqual(
      list(),
      frames.slice(-4).map(({ envelope }) => envelope),
    );
    const padded = { pad: "x".repeat(40_000) } as Partial<Checkpoint>;
    for (const n of [7, 8, 9, 10]) {
      const heads: [number, string][] = Array.from({ length: n - 1 }, (_, i) => [i + 1, "a"]);
      agent.frame(shown(n, "a", { at: Instant.parse(NOW + n * 2 * hour), heads, ...padded }));
    }
    assert.equal(list().length, 1);
  });

  test("goes on with a server that is mended", () => {
    const agent = agentThatSaw10();
    agent.frame(LIES["was shortened"]);
    agent.feed({ kind: "disconnected" });
    agent.welcome();

    agent.frame(shown(11, "b", { heads: [[10, "a"]] }));
    const effects = agent.feed({ kind: "tick" }, NOW + 60_000);

    assert.ok(!kinds(effects).includes("close"));
    assert.equal(agent.state.isRecordRefused, false);
  });

  test("accepts a set-back that is declared, raises an alarm, and keeps what was lost for its owner", () => {
    const agent = agentThatSaw10();
    const setBack = [{ keptSize: 6, head: hash("k"), at: Instant.parse(NOW + 20) }];

    const effects = agent.frame(shown(8, "n", { setBack, at: Instant.parse(NOW + 21) }));
    agent.feed({ kind: "disconnected" });
    const [hello] = agent.frame({ type: "challenge", nonce: "n" });

    assert.ok(!kinds(effects).includes("close"));
    const [alarm] = agent.told();
    assert.equal(alarm?.type === "alarm" && alarm.code, "record_set_back");
    assert.deepEqual(hello?.kind === "hello" && hello.facts.checkpointSizes, [8]);
    const kept = agent.journal.load().checkpoints;
    assert.deepEqual(
      kept.map(({ size, isLost }) => [size, isLost === true]),
      [
        [10, true],
        [8, false],
      ],
    );
  });
});
