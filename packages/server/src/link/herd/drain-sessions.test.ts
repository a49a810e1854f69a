import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { type TestContext, test } from "node:test";
import { createSystemTimers, DRAIN, DRAINING, type ServerFrame, type Timers } from "@exclave/api";
import { connectAgent, joinVendorAgent, newMemory } from "../../testing/scripted-agent.ts";
import { testServer } from "../../testing/test-server.ts";
import { createLinkEndpoint } from "../link-endpoint.ts";

test("agents of a server that is alone all leave at once, and each is told its own time to come back (L-6.3)", async (t) => {
  const server = await testServer(t);
  const agents = [
    await connectAgent(await joinVendorAgent(server, "build")),
    await connectAgent(await joinVendorAgent(server, "setup")),
  ];

  await server.stop();
  await Promise.all(agents.map(({ closed }) => closed));

  const farewells = agents.map(({ frames }) => frames.findLast(isGoAway));
  assert.deepEqual(
    farewells.map((frame) => frame && [frame.code, frame.retryAfterMs, frame.spreadMs]),
    [
      [DRAINING, 500, 0],
      [DRAINING, 600, 0],
    ],
  );
});

test("what an agent said before it is told to leave is acknowledged first (L-6.2)", async (t) => {
  const server = await testServer(t);
  const agent = await connectAgent(await joinVendorAgent(server, "setup"));
  const alarm = { type: "alarm", at: 1, code: "x", because: "x" } as const;

  const said = Array.from({ length: 20 }, () => agent.say(alarm));
  await agent.next(({ type }) => type === "ack");
  await server.stop();
  await agent.closed;
  await Promise.all(said);

  const types = agent.frames.map(({ type }) => type);
  assert.ok(types.lastIndexOf("ack") < types.indexOf("goaway"), types.join(" "));
});

test("a stop is one row on record, however many agents leave by it, and wakes nobody", async (t) => {
  const server = await testServer(t);
  await connectAgent(await joinVendorAgent(server, "build"));
  await connectAgent(await joinVendorAgent(server, "setup"));

  const again = await server.restart();
  const records = await again.server.context.store.read.audit.after(0, 1_000);

  const stops = records.filter(({ action }) => action === "server.stopped");
  assert.deepEqual(
    stops.map(({ details }) => details),
    [{ agents: 2 }],
  );
  assert.ok(!records.some(({ action }) => action === "agent.disconnected"));
});

test("where other servers take them, agents stay until their slots, and the server until the last has gone (L-6.4)", async (t) => {
  const { link, connect, later } = await endpoint(t);
  const knowing = await connect("build", [DRAIN]);
  const unknowing = await connect("setup", []);

  let isClosed = false;
  const closing = link.close({ isAlone: false }).finally(() => {
    isClosed = true;
  });
  const told = await knowing.next(({ type }) => type === "drain");
  assert.deepEqual(told.type === "drain" && told.afterMs, 100);
  assert.equal(unknowing.frames.some(isGoAway), false);
  assert.equal(isClosed, false);
  await knowing.disconnect();
  assert.equal(isClosed, false);
  later.get(200)?.();
  await unknowing.closed;
  await closing;

  const farewell = unknowing.frames.findLast(isGoAway);
  assert.deepEqual(farewell && [farewell.code, farewell.retryAfterMs], [DRAINING, 0]);
});

test("a server that stops offers nothing more (L-6.1)", async (t) => {
  const { link, connect, server } = await endpoint(t);
  const agent = await connect("setup", [DRAIN]);
  const { audience } = agent.identity;
  const closing = link.close({ isAlone: false });
  await agent.next(({ type }) => type === "drain");

  const body = { type: "job_cancel", job: "jaaaaaaaaaaaaaaaa", attempt: 1, graceMs: 1 } as never;
  await server.server.context.store.transaction((tx) => tx.outbox.add(audience, body));
  link.look(audience);
  await agent.say({ type: "alarm", at: 1, code: "x", because: "x" });

  assert.equal(
    agent.frames.some(({ type }) => type === "command"),
    false,
  );
  await agent.disconnect();
  await closing;
});

function isGoAway(frame: ServerFrame): frame is Extract<ServerFrame, { type: "goaway" }> {
  return frame.type === "goaway";
}

/** An endpoint of its own on a server's store, whose later moments come when a test says so. */
async function endpoint(t: TestContext) {
  const server = await testServer(t);
  const later = new Map<number, () => void>();
  const timers: Timers = {
    ...createSystemTimers(),
    after(ms, work) {
      later.set(ms, work);
      return () => later.delete(ms);
    },
  };
  const link = createLinkEndpoint(() => server.server.context, {
    pingMs: 60_000,
    onPresence() {},
    timers,
  });
  const http = createServer();
  http.on("upgrade", (request, socket, head) => link.handleUpgrade(request, socket, head));
  http.listen(0, "127.0.0.1");
  await once(http, "listening");
  t.after(() => http.close());
  const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
  const connect = async (kind: "build" | "setup", capabilities: string[]) =>
    connectAgent(await joinVendorAgent(server, kind), {}, { ...newMemory(), capabilities }, url);
  return { server, link, connect, later };
}
