import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Instant, renewTrust, rotateTrust } from "@exclave/core";
import { NOW } from "../testing/builders.ts";
import { agentWith, types } from "../testing/core-agent.ts";
import { sealTrust, signedTrust, testKey } from "../testing/signed-trust.ts";

const now = Instant.parse(NOW);
const first = signedTrust();
const { document, root } = first;
const second = renewTrust(document, now);
const third = renewTrust(second, now);

function agent() {
  const started = agentWith({ trust: document });
  started.welcome();
  return started;
}

describe("an agent and its trust document", () => {
  test("says in its hello which version it goes by", () => {
    const effects = agent().frame({ type: "challenge", nonce: "n" });

    const hello = effects.find((effect) => effect.kind === "hello");
    assert.equal(hello?.kind === "hello" && hello.facts.trustVersion, 1);
  });

  test("follows version by version, keeps each before anything else, and says so", () => {
    const following = agent();

    for (const [at, next] of [second, third].entries()) {
      const effects = following.frame({ type: "trust", envelope: sealTrust(next, root) });
      assert.equal(effects[0]?.kind, "keep_trust");
      assert.equal(following.state.trust.version, at + 2);
    }

    assert.deepEqual(types(following.told()), ["trust_changed", "trust_changed"]);
    assert.equal(following.restart().state.trust.version, 3);
  });

  const stranger = testKey();
  const replaced = rotateTrust(document, { role: "root", key: stranger, revoke: false, now });
  const LIES = {
    "forged by a stranger": [sealTrust(second, stranger), "trust_signature"],
    "a root of its own, without the old one": [sealTrust(replaced, stranger), "trust_signature"],
    "a version that skips one": [sealTrust(third, root), "trust_invalid"],
    "the one it has": [first.envelope, "trust_replayed"],
  } as const;
  for (const [lie, [envelope, code]] of Object.entries(LIES)) {
    test(`refuses ${lie}, goes on by what it has, and raises an alarm`, () => {
      const wary = agent();

      const effects = wary.frame({ type: "trust", envelope });

      assert.equal(wary.state.trust, document);
      assert.ok(!effects.some(({ kind }) => kind === "keep_trust"));
      const [alarm] = wary.told();
      assert.equal(alarm?.type === "alarm" && alarm.code, code);
    });
  }
});
