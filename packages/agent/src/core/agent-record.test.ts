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
import { agentWith, kinds, types } from "../testing/core-agent.ts";
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

      const effects = agent.frame(frame);
      agent.feed({ kind: "disconnected" });
      agent.welcome();
      agent.frame(frame);
      const offered = agent.offer(manifest);

      assert.ok(kinds(effects).includes("close"));
      assert.ok(kinds(offered).includes("close"));
      assert.equal(agent.state.jobs.size, 0);
      assert.equal(agent.journal.load().downAcked, 0);
      assert.deepEqual(types(agent.told()), ["alarm"]);
    });
  }

  test("takes no work from a server that shows nothing of its record", () => {
    const agent = agentThatSaw10();

    const effects = agent.offer(job());

    assert.ok(kinds(effects).includes("close"));
    assert.equal(agent.state.jobs.size, 0);
  });

  test("goes on with a server that is mended", () => {
    const agent = agentThatSaw10();
    agent.frame(LIES["was shortened"]);
    agent.feed({ kind: "disconnected" });
    agent.welcome();

    const effects = agent.frame(shown(11, "b", { heads: [[10, "a"]] }));

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
