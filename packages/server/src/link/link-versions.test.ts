// Agents of the version before and of one to come, against today's server over real sockets.

import assert from "node:assert/strict";
import { sign } from "node:crypto";
import { once } from "node:events";
import { type TestContext, test } from "node:test";
import { helloBytes, LINK_PATH, LINK_PROTOCOL } from "@exclave/api";
import { WebSocket } from "ws";
import { type Identity, joinVendorAgent } from "../testing/scripted-agent.ts";
import { assertOnRecord, testServer, until } from "../testing/test-server.ts";

type Said = Readonly<Record<string, unknown>> & { readonly type: string };

const ALARM = { type: "alarm", at: 1, code: "x", because: "of a test" };

test("an agent of before, which names no capability and none of the later fields, is served (L-7.3)", async (t) => {
  const server = await testServer(t);
  const agent = await speak(t, await joinVendorAgent(server, "setup"), {});

  agent.say({ type: "event", seq: 1, body: ALARM });
  const ack = await agent.heard("ack");

  assert.deepEqual((await agent.heard("welcome"))["capabilities"], []);
  assert.equal(ack["seq"], 1);
  await server.stop();
  await agent.closed;
  const kinds = new Set(agent.frames.map(({ type }) => type));
  for (const later of ["drain", "certificate", "authorities"]) assert.ok(!kinds.has(later), later);
  assert.equal((await agent.heard("goaway"))["code"], "draining");
});

test("fields and capabilities of an agent to come are ignored (L-7.1)", async (t) => {
  const server = await testServer(t);
  const agent = await speak(t, await joinVendorAgent(server, "setup"), {
    capabilities: ["drain", "of-the-future"],
    protos: [1, 2],
    mood: { isGood: true },
  });

  agent.say({ type: "event", seq: 1, body: { ...ALARM, urgency: 9 }, later: [1, 2] });

  assert.deepEqual((await agent.heard("welcome"))["capabilities"], ["drain"]);
  assert.equal((await agent.heard("ack"))["seq"], 1);
  await assertOnRecord(server, "agent.connected");
});

test("a type of frame to come ends the connection, not for good, and loses nothing that was said (L-7.4)", async (t) => {
  const server = await testServer(t);
  const identity = await joinVendorAgent(server, "setup");
  const agent = await speak(t, identity, {});
  agent.say({ type: "event", seq: 1, body: ALARM });
  await agent.heard("ack");

  agent.say({ type: "surprise", about: "the future" });
  const { code, permanent } = await agent.heard("goaway");
  await agent.closed;
  const again = await speak(t, identity, { upHead: 1, upFrom: 2 });

  assert.deepEqual([code, permanent], ["protocol", false]);
  assert.equal((await again.heard("welcome"))["upAcked"], 1);
});

/** What an agent of the first version 1 says, and whatever else a test has it say. */
async function speak(t: TestContext, identity: Identity, more: object) {
  const { url, agent, keyGeneration, privateKey } = identity;
  const socket = new WebSocket(url.replace("http", "ws") + LINK_PATH, LINK_PROTOCOL);
  const frames: Said[] = [];
  const closed = once(socket, "close");
  t.after(() => socket.terminate());
  const say = (frame: object) => socket.send(JSON.stringify(frame));
  socket.on("message", (data: Buffer) => {
    const frame = JSON.parse(data.toString()) as Said;
    frames.push(frame);
    if (frame.type === "challenge") say(hello(String(frame["nonce"])));
  });
  const heard = (type: string) =>
    until(
      async () => frames.findLast((frame) => frame.type === type) as Said,
      (frame) => frame !== undefined,
      `the server says ${type}`,
    );
  await heard("welcome");
  return { say, heard, frames, closed };

  function hello(nonce: string): object {
    const bootId = "boot";
    const proof = sign(null, helloBytes(nonce, agent, bootId), privateKey).toString("base64");
    return {
      type: "hello",
      protos: [1],
      agent,
      version: "0.0.9",
      platform: "linux-x64",
      runtime: "process",
      capabilities: [],
      keyGeneration,
      bootId,
      downAcked: 0,
      upHead: 0,
      upFrom: 1,
      journalId: "journal",
      jobs: [],
      clockMs: Date.now(),
      proof,
      ...more,
    };
  }
}
