import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { type TestContext, test } from "node:test";
import { createGate } from "./gate.ts";
import type { Caller } from "./judge-request.ts";

const ID = "c".repeat(64);
const LABELS = { "dev.exclave.owner": "exclave-i1", "dev.exclave.component": "web" };

interface Wish {
  readonly method?: string;
  readonly path: string;
  readonly headers?: Record<string, string>;
  readonly body?: string;
}

/** An engine that keeps what it is asked, and has one container, which is the component web's. */
async function gateBeforeEngine(t: TestContext, caller: Caller | undefined) {
  const place = await mkdtemp(join(tmpdir(), "exclave-gate-"));
  t.after(() => rm(place, { recursive: true, force: true }));
  const asked: { readonly what: string; readonly body: string }[] = [];
  const engine = createServer((message, answer) => {
    void text(message).then((body) =>
      asked.push({ what: `${message.method} ${message.url}`, body }),
    );
    const isOwn = message.url?.endsWith("/containers/web/json") === true;
    answer.setHeader("content-type", "application/json");
    answer.end(JSON.stringify(isOwn ? { Id: ID, Config: { Labels: LABELS } } : {}));
  });
  const sockets = { engine: join(place, "engine"), gate: join(place, "gate") };
  const gate = createGate({
    engine: sockets.engine,
    owner: "exclave-i1",
    network: "none",
    whoIs: async () => caller,
    log: () => undefined,
  });
  for (const [server, path] of [
    [engine, sockets.engine],
    [gate, sockets.gate],
  ] as const) {
    server.listen(path);
    await once(server, "listening");
    t.after(() => {
      server.closeAllConnections();
      server.close();
    });
  }
  return { asked, ask: (wish: Wish) => askThrough(sockets.gate, wish) };
}

async function askThrough(socketPath: string, { method = "GET", path, headers, body }: Wish) {
  const sent = request({ socketPath, method, path: `/v1.41${path}`, headers });
  const response = once(sent, "response");
  // An answer may come, and the connection end, before all of a large body is sent.
  sent.on("error", () => undefined);
  sent.end(body);
  const [answer] = await response;
  await text(answer);
  return answer.statusCode as number;
}

const WEB: Caller = { kind: "job", component: "web" };

test("whoever cannot say who they are reaches nothing", async (t) => {
  const { ask, asked } = await gateBeforeEngine(t, undefined);

  assert.equal(await ask({ path: "/info" }), 401);
  assert.deepEqual(asked, []);
});

test("what is refused never reaches the engine, what is allowed does", async (t) => {
  const { ask, asked } = await gateBeforeEngine(t, WEB);

  const refused = await ask({ method: "POST", path: "/images/load", body: "archive" });
  const passed = await ask({ path: "/info" });

  assert.deepEqual([refused, passed], [403, 200]);
  assert.deepEqual(
    asked.map(({ what }) => what),
    ["GET /v1.41/info"],
  );
});

test("a container is named by its id, and bytes that nobody judged are not handed on", async (t) => {
  const { ask, asked } = await gateBeforeEngine(t, WEB);
  const body = JSON.stringify({ HostConfig: { Privileged: true } });
  const headers = { "content-type": "application/json; charset=utf-8" };

  const status = await ask({ method: "POST", path: "/containers/web/start", headers, body });

  assert.equal(status, 200);
  assert.deepEqual(asked.at(-1), { what: `POST /v1.41/containers/${ID}/start`, body: "" });
});

test("the container of another component is not the caller's", async (t) => {
  const { ask, asked } = await gateBeforeEngine(t, { kind: "job", component: "api" });

  assert.equal(await ask({ method: "POST", path: "/containers/web/stop" }), 403);
  assert.ok(asked.every(({ what }) => what.startsWith("GET ")));
});

test("large headers and large orders are refused", async (t) => {
  const { ask, asked } = await gateBeforeEngine(t, WEB);
  const type = { "content-type": "application/json" };
  const large = JSON.stringify({ Image: "a".repeat(3 * 1024 * 1024) });

  const headers = await ask({ path: "/info", headers: { "x-large": "a".repeat(20_000) } });
  const order = await ask({
    method: "POST",
    path: "/containers/create?name=exclave-i1-web",
    headers: type,
    body: large,
  }).catch(() => "cut");

  assert.equal(headers, 431);
  assert.ok(order === 403 || order === "cut", `${order}`);
  assert.deepEqual(asked, []);
});
