import assert from "node:assert/strict";
import { test } from "node:test";
import {
  Instant,
  MANIFEST_PAYLOAD_TYPE,
  type Manifest,
  manifestBytes,
  renewTrust,
  signEnvelope,
} from "@exclave/core";
import { agentRules } from "./agent-rules.ts";
import { ACME, job } from "./testing/builders.ts";
import { agentWith, types } from "./testing/core-agent.ts";
import { sealTrust, signedTrust } from "./testing/signed-trust.ts";

test("under an expired trust document no manifest is accepted, and after its renewal they are again", () => {
  const { document, director, root } = signedTrust();
  const agent = agentWith({
    trust: document,
    rules: agentRules("install", { audience: ACME } as never, []),
  });
  agent.welcome();
  const end = document.expiresAt;
  const offer = (name: string, at: number, issueNo: number) => {
    const [notBefore, notAfter] = [at - 1_000, at + 60_000].map((time) => Instant.parse(time));
    const manifest = job(name, { notBefore, notAfter, issueNo } as Partial<Manifest>);
    const envelope = signEnvelope(MANIFEST_PAYLOAD_TYPE, manifestBytes(manifest), director);
    agent.offer(manifest, envelope, at);
    return agent.told().at(-1);
  };

  assert.equal(offer("before", end - 10_000, 100)?.type, "job_accepted");
  const refused = offer("after", end + 10_000, 101);
  assert.ok(refused?.type === "job_rejected", JSON.stringify(refused));
  assert.equal(refused.code, "expired");
  assert.match(
    refused.because,
    /trust document 1, by which manifests are judged here, ended at 20/,
  );

  // The renewal itself is taken, whatever the time is here.
  const renewed = renewTrust(document, Instant.parse(end + 10_000));
  agent.frame({ type: "trust", envelope: sealTrust(renewed, root) }, end + 20_000);

  assert.equal(offer("renewed", end + 30_000, 102)?.type, "job_accepted");
  assert.deepEqual(types(agent.told()), [
    "job_accepted",
    "job_rejected",
    "trust_changed",
    "job_accepted",
  ]);
});
