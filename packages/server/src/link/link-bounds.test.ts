// One agent, whatever it does, costs the server a bounded amount of memory, disk and record.

import assert from "node:assert/strict";
import { generateKeyPairSync, sign } from "node:crypto";
import { EventEmitter, once } from "node:events";
import { readdir } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import { type TestContext, test } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import {
  createSystemTimers,
  helloBytes,
  LINK_PATH,
  LINK_PROTOCOL,
  ServerFrame,
  type Timers,
  UNPROVEN_MAX,
  UNREAD_BYTES_MAX,
} from "@exclave/api";
import { JobId } from "@exclave/core";
import { WebSocket } from "ws";
import { flushRepeats } from "../access/note-refusal.ts";
import { newAgentId } from "../identifiers.ts";
import { deployedWorld } from "../testing/deployed-world.ts";
import { jobRow } from "../testing/rows.ts";
import {
  connectAgent,
  type Identity,
  joinVendorAgent,
  newMemory,
} from "../testing/scripted-agent.ts";
import { type TestServer, testServer, until } from "../testing/test-server.ts";
import { createLinkEndpoint } from "./link-endpoint.ts";
import { createAgentQuotas } from "./session/agent-quota.ts";
import { startLinkSession } from "./session/link-session.ts";

const JOB = JobId.parse("jbbbbbbbbbbbbbbbb");
const actions = async ({ server }: TestServer, action: string) =>
  (await server.context.store.read.audit.after(0, 10_000)).filter((row) => row.action === action);

test("log data of attempts that do not exist, or are not open, make no file", async (t) => {
  const server = await testServer(t);
  const agent = await connectAgent(await joinVendorAgent(server, "build"));
  const { store, now } = server.server.context;
  const mine = { audience: "build", install: null } as const;
  const running = { status: "running", since: now(), cancelRequested: false } as const;
  await store.transaction(async (tx) => {
    await tx.jobs.put(jobRow({ ...mine, id: JOB, state: running }));
    await tx.jobs.put(jobRow({ ...mine, id: JobId.parse("jqqqqqqqqqqqqqqqq") }));
    const ended = { endedAt: now(), log: { bytes: 3, sha256: "" } };
    const id = JobId.parse("jeeeeeeeeeeeeeeee");
    const state = { status: "succeeded", since: now() } as const;
    await tx.jobs.put(jobRow({ ...mine, id, state, ...ended }));
  });

  for (let attempt = 2; attempt < 50; attempt++) agent.sendLog(JOB, attempt, 0, "x");
  agent.sendLog("jqqqqqqqqqqqqqqqq", 1, 0, "x");
  agent.sendLog("jeeeeeeeeeeeeeeee", 1, 0, "abcdef");
  agent.sendLog(JOB, 1, 0, "real");
  await agent.next((frame) => frame.type === "log_ack" && frame.job === JOB);

  const files = await readdir(join(server.data, "logs"));
  assert.deepEqual(files.toSorted(), ["j-jbbbbbbbbbbbbbbbb-1.log", "j-jeeeeeeeeeeeeeeee-1.log"]);
  assert.equal(await server.server.context.logs.sizeBytes("jeeeeeeeeeeeeeeee", 1), 3);
});

test("alarms are all acknowledged, and those of a minute are on record once, with a number", async (t) => {
  const server = await testServer(t);
  const agent = await connectAgent(await joinVendorAgent(server, "build"));

  for (let n = 0; n < 200; n++) {
    await agent.say({ type: "alarm", at: 1, code: "x", because: "x".repeat(100_000) });
  }

  const alarms = await actions(server, "agent.alarm");
  assert.ok(alarms.length <= 2, `${alarms.length} rows`);
  assert.ok(alarms.every(({ details }) => JSON.stringify(details).length < 5_000));
});

test("changes of health beyond what is a row each are one row a minute", async (t) => {
  const at = await deployedWorld(t);
  const agent = at.install.agent();
  for (let n = 0; n < 150; n++) {
    const health = n % 2 === 0 ? "healthy" : "degraded";
    await agent?.say({ type: "health", at: 1, component: "api", health, because: `${n}` });
  }

  const rows = (await actions(at.server, "component.health")).length;
  assert.ok(rows >= 50 && rows < 100, `${rows} rows`);
});

test("an agent that connects again and again is on record once, then sent away for a while", async (t) => {
  const server = await testServer(t);
  const identity = await joinVendorAgent(server, "build");
  const memory = newMemory();
  const connect = async () => (await connectAgent(identity, {}, memory)).disconnect();

  const refused = async () => {
    for (let n = 0; n < 100; n++) await connect();
  };

  await assert.rejects(refused(), /rate_limited: this agent connects too often/);
  assert.equal((await actions(server, "agent.connected")).length, 1);
  assert.ok((await actions(server, "agent.disconnected")).length <= 1);
});

test("refused grants are all answered, and on record once a minute", async (t) => {
  const server = await testServer(t);
  const agent = await connectAgent(await joinVendorAgent(server, "setup"));

  for (let n = 0; n < 50; n++) await agent.grant(JOB);

  assert.ok((await actions(server, "grant.refused")).length <= 2);
});

test("of connections that prove nothing the oldest make room for new ones", async (t) => {
  const server = await testServer(t, { pingMs: 600_000 });
  const url = server.url.replace("http", "ws") + LINK_PATH;
  const open = async () => {
    const socket = new WebSocket(url, LINK_PROTOCOL);
    t.after(() => socket.terminate());
    await once(socket, "open");
    return socket;
  };
  const first = await open();
  const gone = once(first, "close");
  for (let n = 1; n < UNPROVEN_MAX; n++) await open();

  let isGone = false;
  void gone.then(() => (isGone = true));
  // Every try may take the place of one that has been at it for too long.
  await until(
    () => turnedAway(url),
    (answer) => answer === undefined,
    "there is room",
  );
  await until(
    async () => isGone,
    (answer) => answer,
    "the oldest is gone",
  );
  const agent = await connectAgent(await joinVendorAgent(server, "build"));
  await agent.disconnect();
});

test("a hello that proves nothing is a failed login: one row a minute, answered late or not at all", async (t) => {
  const server = await testServer(t);
  const { context } = server.server;
  const identity = await joinVendorAgent(server, "build");
  const { privateKey } = generateKeyPairSync("ed25519");
  const ends = Array.from({ length: 40 }, (_, n) => {
    const forged = n % 2 === 0 ? { ...identity, privateKey } : { ...identity, agent: newAgentId() };
    return firstAnswer(forged);
  });

  const answers = await Promise.all(ends);
  // From the very same address, while others fail there.
  const agent = await connectAgent(identity);
  await agent.disconnect();

  assert.ok(answers.some((text) => text?.includes("no agent with that id and key")));
  assert.ok(answers.includes(undefined), "no more wait than a bounded number");
  await flushRepeats(context, { all: true });
  const rows = await actions(server, "login.failed");
  assert.deepEqual(
    rows.map(({ subject, details }) => [subject, details["asked"], details["more"]]),
    [
      ["127.0.0.1", "hello of an agent", undefined],
      ["127.0.0.1", "hello of an agent", 39],
    ],
  );
});

test("what an agent says of itself is short: it goes into rows and onto the record", async (t) => {
  const server = await testServer(t);
  const identity = await joinVendorAgent(server, "build");
  const long = "x".repeat(1_000);

  for (const name of ["version", "platform", "runtime", "journalId"]) {
    assert.match(String(await firstAnswer(identity, { [name]: long })), /not a frame/, name);
  }
  assert.match(String(await firstAnswer(identity)), /welcome/);
});

const EMPTY_HELLO = {
  protos: [1],
  version: "0.1.0",
  platform: "test",
  runtime: "scripted",
  capabilities: [],
  downAcked: 0,
  upHead: 0,
  upFrom: 1,
  journalId: "new",
  jobs: [],
  clockMs: 0,
};

/** What the server says to this hello; undefined if it just hangs up. */
function firstAnswer({ url, agent, keyGeneration, privateKey }: Identity, says: object = {}) {
  const socket = new WebSocket(`${url.replace("http", "ws")}${LINK_PATH}`, LINK_PROTOCOL);
  const answer = Promise.withResolvers<string | undefined>();
  socket.on("error", () => answer.resolve(undefined));
  socket.on("close", () => answer.resolve(undefined));
  socket.on("message", (data: Buffer) => {
    const frame = ServerFrame.parse(JSON.parse(data.toString("utf8")));
    if (frame.type !== "challenge") return answer.resolve(data.toString("utf8"));
    const bootId = "boot";
    const proof = sign(null, helloBytes(frame.nonce, agent, bootId), privateKey);
    const hello = { type: "hello", agent, keyGeneration, bootId, proof: proof.toString("base64") };
    socket.send(JSON.stringify({ ...EMPTY_HELLO, ...hello, ...says }));
  });
  return answer.promise.finally(() => socket.terminate());
}

/** Undefined when it was let in. */
async function turnedAway(url: string): Promise<true | undefined> {
  const socket = new WebSocket(url, LINK_PROTOCOL);
  const answer = Promise.withResolvers<true | undefined>();
  socket.on("unexpected-response", () => answer.resolve(true));
  socket.on("open", () => answer.resolve(undefined));
  socket.on("error", () => undefined);
  return answer.promise.finally(() => socket.terminate());
}

/** A connection as far as a session sees it. */
function fakeSocket(t: TestContext, bufferedAmount = 0) {
  return Object.assign(new EventEmitter(), {
    OPEN: 1,
    readyState: 1,
    bufferedAmount,
    isPaused: false,
    send: t.mock.fn<(text: string) => void>(),
    pause() {},
    resume() {},
    close: t.mock.fn(),
    terminate: t.mock.fn(),
  });
}

test("while as many as may be prove themselves, a newcomer is told when to come back (L-5.3)", async (t) => {
  const server = await testServer(t);
  const link = createLinkEndpoint(() => server.server.context, {
    pingMs: 600_000,
    onPresence() {},
    elapsedMs: () => 0,
  });
  t.after(() => link.close());
  const sockets = Array.from({ length: UNPROVEN_MAX }, () => fakeSocket(t));
  for (const socket of sockets) link.accept(socket as unknown as WebSocket);
  const end = t.mock.fn<(text: string) => void>();

  const request = { url: LINK_PATH } as IncomingMessage;
  link.handleUpgrade(request, { end, destroy() {} } as unknown as Duplex, Buffer.alloc(0));

  assert.match(end.mock.calls[0]?.arguments[0] ?? "", /^HTTP\/1\.1 503 .*\r\nretry-after: 5\r\n/);
  assert.ok(sockets.every(({ terminate }) => terminate.mock.callCount() === 0));
  for (const socket of sockets) socket.emit("close");
});

const SETTINGS = { pingMs: 60_000, reconnectSpreadMs: 0, ageMs: 3_600_000 };
const UNTOLD = { onLive() {}, onLooks() {}, onClosed() {} };

test("a connection that has become old is ended, and its agent may come back at once (L-5.5)", async (t) => {
  const server = await testServer(t);
  const socket = fakeSocket(t);
  const later = new Map<number, () => void>();
  const timers: Timers = {
    ...createSystemTimers(),
    after(ms, work) {
      later.set(ms, work);
      return () => later.delete(ms);
    },
  };
  startLinkSession({
    context: server.server.context,
    socket: socket as unknown as WebSocket,
    settings: SETTINGS,
    quotas: createAgentQuotas(),
    timers,
    ...UNTOLD,
  });

  later.get(SETTINGS.ageMs)?.();

  const said = socket.send.mock.calls.map(({ arguments: [text] }) => JSON.parse(text));
  const { code, retryAfterMs, spreadMs, permanent } = said.at(-1);
  assert.deepEqual([code, retryAfterMs, spreadMs, permanent], ["moving", 0, 0, false]);
  assert.deepEqual(socket.close.mock.calls[0]?.arguments, [1001]);
  socket.emit("close");
  assert.equal(later.has(SETTINGS.ageMs), false);
});

test("a connection whose other end does not read is cut", async (t) => {
  const server = await testServer(t);
  const socket = fakeSocket(t, UNREAD_BYTES_MAX + 1);

  startLinkSession({
    context: server.server.context,
    socket: socket as unknown as WebSocket,
    settings: SETTINGS,
    quotas: createAgentQuotas(),
    ...UNTOLD,
  });
  await until(
    async () => socket.terminate.mock.callCount(),
    (count) => count > 0,
    "it is cut",
  );
  socket.emit("close");
});

test("an agent that has sent many frames is heard a few at a time, and everybody else in between", async (t) => {
  const server = await testServer(t);
  const agent = await connectAgent(await joinVendorAgent(server, "setup"));
  const over = new AbortController();
  let turns = 0;
  const others = (async () => {
    for (; !over.signal.aborted; turns++) await nextTurn();
  })();

  const alarm = { type: "alarm", at: 1, code: "x", because: "x" } as const;
  await Promise.all(Array.from({ length: 60 }, () => agent.say(alarm)));
  over.abort();
  await others;

  // Eight at a time, and a commit each.
  assert.ok(turns >= 60 / 8, `${turns} turns`);
});
