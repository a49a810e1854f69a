import assert from "node:assert/strict";
import { test } from "node:test";
import { createRelease, type ServerFrame } from "@exclave/api";
import {
  fromBase64,
  Instant,
  keysOfRole,
  MANIFEST_PAYLOAD_TYPE,
  nextTrust,
  openEnvelope,
  parseTrust,
  renewTrust,
  rotateTrust,
  type TrustDocument,
} from "@exclave/core";
import { verifySignature } from "@exclave/machine";
import { connectAgent, joinVendorAgent, newMemory } from "../testing/scripted-agent.ts";
import { buildAgent, uploadSource } from "../testing/scripted-vendor.ts";
import { assertOnRecord, type TestServer, testServer, until } from "../testing/test-server.ts";

const ONE = "app: crm\ncomponents:\n  - { name: api, type: command, source: ./api }\n";

async function renew({ server }: TestServer): Promise<void> {
  const { trust, now } = server.context;
  await trust.change(renewTrust(trust.current().document, now()), "ada", {});
}

async function rotateDirector({ server }: TestServer, revoke = false): Promise<void> {
  const { trust, now } = server.context;
  const key = await trust.signer.make("director");
  const document = rotateTrust(trust.current().document, {
    role: "director",
    key,
    revoke,
    now: now(),
  });
  await trust.change(document, "ada", {});
}

const versionsIn = (frames: readonly ServerFrame[]): number[] =>
  frames.flatMap((frame) => {
    if (frame.type !== "trust") return [];
    const document = parseTrust(fromBase64(frame.envelope.payload) ?? new Uint8Array());
    return "version" in document ? [document.version] : [];
  });

test("an agent that was away is sent every version it does not have, in order", async (t) => {
  const server = await testServer(t);
  const identity = await joinVendorAgent(server, "build");
  for (let round = 0; round < 3; round++) await renew(server);

  const agent = await connectAgent(identity, {}, { ...newMemory(), trustVersion: 1 });
  await agent.say({ type: "trust_changed", at: 1, version: 4, digest: "sha256:x" });

  assert.deepEqual(versionsIn(agent.frames), [2, 3, 4]);
  const row = await server.server.context.store.read.agents.get(identity.agent);
  assert.equal(row?.trustVersion, 4);
  await assertOnRecord(server, "trust.published", "agent.connected", "agent.trust_changed");
});

test("an agent that is connected is sent a new version at once, and each only once", async (t) => {
  const server = await testServer(t);
  const identity = await joinVendorAgent(server, "build");
  const agent = await connectAgent(identity, {}, { ...newMemory(), trustVersion: 1 });

  const second = agent.next(({ type }) => type === "trust");
  await renew(server);
  await second;
  await agent.say({ type: "alarm", at: 1, code: "x", because: "x" });

  assert.deepEqual(versionsIn(agent.frames), [2]);
});

test("a command comes after the trust document that names its signer, also with a revoked key", async (t) => {
  const server = await testServer(t);
  const published = await buildAgent(server, async () => undefined);
  const { identity, memory } = published;
  await published.disconnect();
  const first = server.server.context.trust.current().document;
  const sources = { api: await uploadSource(server, "source") };
  await server.client.call(createRelease, { body: { config: ONE, sources } });
  const { outbox } = server.server.context.store.read;
  await until(
    () => outbox.waiting("build", 10),
    (rows) => rows.length > 0,
    "a build is waiting",
  );
  // Made under the first director, sent under the third.
  await rotateDirector(server);
  await rotateDirector(server, true);

  const agent = await connectAgent(identity, {}, { ...memory, trustVersion: 1 });
  await until(
    async () => agent.offered.length,
    (count) => count > 0,
    "the build is offered",
  );

  let held: TrustDocument = first;
  const now = Instant.parse(Date.now());
  for (const frame of agent.frames) {
    if (frame.type === "trust") {
      const { envelope } = frame;
      const judged = nextTrust({ current: held, envelope, now, verify: verifySignature });
      assert.equal(judged.kind, "ok", JSON.stringify(judged));
      held = judged.document;
    }
    if (frame.type === "command" && frame.body.type === "job_offer") {
      const opened = openEnvelope(frame.body.envelope, {
        ...keysOfRole(held, "director", now),
        payloadType: MANIFEST_PAYLOAD_TYPE,
        bytesMax: 1_000_000,
        verify: verifySignature,
      });
      assert.ok(opened instanceof Uint8Array, JSON.stringify(opened));
    }
  }
  assert.equal(held.version, 3);
  assert.equal(held.roles.director.keyids.length, 1);
});
