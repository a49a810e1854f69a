import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { type Envelope, type Manifest } from "@exclave/core";
import { createDirector, GLOBEX, job, NOW } from "../testing/builders.ts";
import { agentWith, kinds, nameOf, SUCCEEDED } from "../testing/core-agent.ts";

describe("a server that lies", () => {
  const stranger = createDirector();
  const director = createDirector();
  const honest = job("honest");
  const altered = (): Envelope => {
    const envelope = director.seal(job("altered"));
    const payload = Buffer.from(envelope.payload, "base64").toString("utf8");
    const changed = payload.replace("it is tested", "it is not so");
    return { ...envelope, payload: Buffer.from(changed).toString("base64") };
  };
  const lies: Record<string, { manifest: Manifest; envelope: () => Envelope; code: string }> = {
    forged: {
      manifest: job("forged"),
      envelope: () => stranger.seal(job("forged")),
      code: "signature",
    },
    altered: { manifest: job("altered"), envelope: altered, code: "signature" },
    expired: {
      manifest: job("expired"),
      envelope: () => director.seal(job("expired", { notAfter: (NOW - 120_000) as never })),
      code: "expired",
    },
    "not yet valid": {
      manifest: job("early"),
      envelope: () => director.seal(job("early", { notBefore: (NOW + 120_000) as never })),
      code: "expired",
    },
    "meant for another install": {
      manifest: job("cross"),
      envelope: () => director.seal(job("cross", { audience: GLOBEX })),
      code: "wrong_install",
    },
    "with other inputs than it names": {
      manifest: job("inputs"),
      envelope: () => director.seal({ ...job("inputs"), inputs: { domain: "evil" } }),
      code: "invalid",
    },
    "offered under another job's name": {
      manifest: job("under"),
      envelope: () => director.seal(job("other")),
      code: "invalid",
    },
    "replayed under another name": {
      manifest: job("replay"),
      envelope: () => director.seal(honest),
      code: "replayed",
    },
  };

  for (const [lie, { manifest, envelope, code }] of Object.entries(lies)) {
    test(`gets nowhere with a manifest that is ${lie}, and the refusal is on record`, () => {
      const agent = agentWith({ director });
      agent.welcome();
      agent.run(honest);
      agent.feed({ kind: "exited", name: nameOf(honest), ended: SUCCEEDED });

      const effects = agent.offer(manifest, envelope());

      assert.ok(!kinds(effects).includes("launch"), "nothing is launched");
      const event = agent.told().at(-1);
      assert.ok(event?.type === "job_rejected");
      assert.deepEqual([event.job, event.code], [manifest.id, code]);
      assert.ok(!agent.state.jobs.has(nameOf(manifest)));
      const refusal = effects.findIndex(({ kind }) => kind === "journal");
      const told = effects.findIndex((effect) => effect.kind === "send");
      assert.ok(refusal < told, "the refusal is journaled before anything is said");
    });
  }

  test("does not end a running job by offering it again: that is an alarm", () => {
    const agent = agentWith({ director });
    agent.welcome();
    agent.run(honest);

    const effects = agent.offer(honest);

    assert.ok(!kinds(effects).includes("launch"));
    const event = agent.told().at(-1);
    assert.equal(event?.type === "alarm" && event.code, "replayed");
    assert.equal(agent.state.jobs.get(nameOf(honest))?.phase, "running");
  });

  test("cannot bring back an old manifest after the agent's restart", () => {
    const agent = agentWith({ director });
    agent.welcome();
    agent.run(honest);
    agent.feed({ kind: "exited", name: nameOf(honest), ended: SUCCEEDED });
    agent.frame({ type: "ack", seq: agent.state.upHead });
    const again = agent.restart();
    again.welcome();
    assert.equal(again.state.jobs.size, 0, "the job is closed and forgotten");

    const effects = again.offer(honest);

    assert.ok(!kinds(effects).includes("launch"));
    const event = again.told().at(-1);
    assert.equal(event?.type === "job_rejected" && event.code, "replayed");

    const anew = again.offer({ ...honest, issueNo: honest.issueNo + 1_000 });
    assert.ok(!kinds(anew).includes("launch"), "nor under a new number, with the real signature");
  });
});
