// What agents over a real socket present of the record, and what a person is handed of it.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { forgetInstall, listCheckpoints } from "@exclave/api";
import {
  CHECKPOINT_PAYLOAD_TYPE,
  checkpointBytes,
  EMPTY_CHAIN,
  type Envelope,
} from "@exclave/core";
import { deployedWorld } from "../testing/deployed-world.ts";
import { connectAgent, joinVendorAgent, newMemory } from "../testing/scripted-agent.ts";
import { assertOnRecord, type TestServer, testServer, until } from "../testing/test-server.ts";

/** An agent that presents whatever is in its list when it is asked. */
async function presenter(t: TestContext, options: Parameters<typeof testServer>[1] = {}) {
  const server = await testServer(t, options);
  const presents: Envelope[] = [];
  const memory = { ...newMemory(), checkpointSizes: [], presents };
  const identity = await joinVendorAgent(server, "build");
  const connect = () => connectAgent(identity, {}, memory);
  return { server, presents, identity, connect };
}

const isWant = ({ type }: { type: string }) => type === "checkpoints_want";

async function kept({ server }: Pick<TestServer, "server">, agent: string): Promise<Envelope[]> {
  return (await server.context.store.read.agentCheckpoints.get(agent))?.checkpoints ?? [];
}

test("an agent is asked after it was shown the record, and what it presents is there when it is gone", async (t) => {
  const { server, presents, identity, connect } = await presenter(t);
  presents.push((await server.server.context.checkpoints.latest()).envelope);
  const agent = await connect();
  await until(
    () => kept(server, identity.agent),
    (list) => list.length === 1,
    "what it presented is kept",
  );
  await agent.disconnect();

  const { items } = await server.client.call(listCheckpoints, {});

  const types = agent.frames.map(({ type }) => type);
  assert.ok(types.indexOf("checkpoint") < types.indexOf("checkpoints_want"), types.join());
  const [seen] = items;
  assert.equal(seen?.agent, identity.agent);
  assert.deepEqual(seen?.checkpoints, presents);
});

test("whoever is connected is asked when somebody verifies, and who does not answer is not waited for", async (t) => {
  let ahead = 0;
  const now = () => Date.now() + ahead;
  const { server, presents, identity, connect } = await presenter(t, { now, pingMs: 1e9 });
  const { checkpoints } = server.server.context;
  presents.push((await checkpoints.latest()).envelope);
  const agent = await connect();
  await until(
    () => kept(server, identity.agent),
    (list) => list.length === 1,
    "the first is kept",
  );
  const list = () => server.client.call(listCheckpoints, {});

  const soon = await list();
  ahead = 60_000;
  presents.push((await checkpoints.latest()).envelope);
  const later = await list();
  ahead = 120_000;
  agent.memory.presents = undefined;
  const silent = await list();

  assert.equal(soon.items[0]?.checkpoints.length, 1);
  assert.deepEqual(later.items[0]?.checkpoints, presents);
  assert.deepEqual(silent.items[0]?.checkpoints, presents);
  assert.equal(agent.frames.filter(isWant).length, 3, "at its start, and twice by a person");
});

test("what this server never signed is not kept, and that is on record", async (t) => {
  const { server, presents, identity, connect } = await presenter(t);
  const { trust, now } = server.server.context;
  const foreign = { serverId: "another", ...EMPTY_CHAIN, at: now(), setBack: [] };
  const bytes = checkpointBytes({ ...foreign, serverId: trust.after(0)[0]?.digest ?? "" });
  presents.push(
    await trust.seal("checkpoint", CHECKPOINT_PAYLOAD_TYPE, checkpointBytes(foreign)),
    await trust.seal("director", CHECKPOINT_PAYLOAD_TYPE, bytes).catch(() => unsigned(bytes)),
    unsigned(bytes),
  );
  await connect();

  await until(
    () => server.server.context.store.read.agentCheckpoints.get(identity.agent),
    (row) => row !== undefined,
    "it presented something",
  );

  assert.deepEqual(await kept(server, identity.agent), []);
  await assertOnRecord(server, "agent.connected", "checkpoints.refused");
});

test("one install's agent can be asked alone, and a forgotten install leaves nothing", async (t) => {
  const at = await deployedWorld(t);
  const { store, checkpoints, agentCheckpoints } = at.server.server.context;
  const agent = (await store.read.agents.list({ limit: 10 })).items.find(
    ({ installName }) => installName === "acme",
  );
  assert.ok(agent);
  await agentCheckpoints.keep(agent, [(await checkpoints.latest()).envelope]);

  const { items } = await at.server.client.call(listCheckpoints, { query: { install: "acme" } });
  const params = { install: "acme" as never };
  await at.server.client.call(forgetInstall, { params, query: { force: "true" } });

  assert.deepEqual(
    items.map(({ install, checkpoints }) => [install, checkpoints.length]),
    [["acme", 1]],
  );
  assert.deepEqual(await kept(at.server, agent.id), []);
  await assert.rejects(
    at.server.client.call(listCheckpoints, { query: { install: "acme" } }),
    /there is no install acme/,
  );
});

function unsigned(bytes: Uint8Array): Envelope {
  const signatures = [{ keyid: "0".repeat(64), sig: "AAAA" }];
  const payload = Buffer.from(bytes).toString("base64");
  return { payloadType: CHECKPOINT_PAYLOAD_TYPE, payload, signatures };
}
