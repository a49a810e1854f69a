import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { createJoin, listAgents, listAudit, revokeAgent } from "@exclave/api";
import { connectAgent, join, joinVendorAgent, newMemory } from "../testing/scripted-agent.ts";
import { assertOnRecord, testServer, until } from "../testing/test-server.ts";

const ALARM = { type: "alarm", at: 1, code: "test", because: "still here" } as const;

describe("an agent that is revoked", () => {
  test("is sent away from the connection it has, and not let in again", async (t) => {
    const server = await testServer(t);
    const identity = await joinVendorAgent(server, "build");
    const agent = await connectAgent(identity);
    const params = { agent: identity.agent };

    const { revokedAt } = await server.client.call(revokeAgent, {
      params,
      body: { because: "stolen" },
    });
    await agent.closed;

    const last = agent.frames.at(-1);
    assert.ok(last?.type === "goaway" && last.code === "revoked" && last.permanent);
    await assert.rejects(connectAgent(identity), /revoked: this agent was revoked/);
    const { items } = await server.client.call(listAgents);
    assert.deepEqual(
      items.map((item) => [item.status, item.revokedAt]),
      [["offline", revokedAt]],
    );
    await assertOnRecord(server, "agent.joined", "agent.revoked");
    const again = await server.client.call(revokeAgent, { params, body: {} });
    assert.equal(again.revokedAt, revokedAt);
  });

  test("writes nothing more, whatever is on its way", async (t) => {
    const server = await testServer(t);
    const { store } = server.server.context;
    const identity = await joinVendorAgent(server, "build");
    const agent = await connectAgent(identity);
    // As if the revocation came while this connection could not be told of it.
    await store.transaction(async (tx) => {
      const row = await tx.agents.get(identity.agent);
      assert.ok(row);
      await tx.agents.put({ ...row, revokedAt: server.server.context.now() });
    });

    void agent.say(ALARM).catch(() => undefined);
    await agent.closed;

    assert.equal((await store.read.agents.get(identity.agent))?.upAcked, 0);
  });

  test("comes back by a join string that is made later, and by none from before", async (t) => {
    const server = await testServer(t);
    const { client } = server;
    const { agent } = await joinVendorAgent(server, "build");
    const { joinString: before } = await client.call(createJoin, { body: { kind: "build" } });
    await client.call(revokeAgent, { params: { agent }, body: {} });

    await assert.rejects(join(before), /was revoked after this join string was made/);
    const back = await joinVendorAgent(server, "build");

    assert.deepEqual([back.agent, back.keyGeneration], [agent, 2]);
    await connectAgent(back);
  });

  test("has to be there", async (t) => {
    const { client } = await testServer(t);
    const params = { agent: "aaaaaaaaaaaaaaaaa" };

    await assert.rejects(client.call(revokeAgent, { params, body: {} }), /there is no agent/);
  });
});

test("two processes with one key are on record as an alarm", async (t) => {
  const server = await testServer(t);
  const identity = await joinVendorAgent(server, "build");
  const memory = newMemory();

  for (const bootId of ["one", "two", "one", "two", "one"]) {
    await connectAgent(identity, {}, { ...memory, bootId });
  }

  const alarms = async () => {
    const { items } = await server.client.call(listAudit, { query: { subject: "build" } });
    return items.filter(({ action }) => action === "agent.alarm");
  };
  const raised = await until(alarms, (items) => items.length > 0, "the alarm is on record");
  assert.deepEqual(
    raised.map(({ actor, details }) => [actor, details["code"]]),
    [["server", "cloned_key"]],
  );
  const row = await server.server.context.store.read.agents.get(identity.agent);
  assert.match(row?.alarms[0]?.because ?? "", /two processes hold this agent's key/);
});
