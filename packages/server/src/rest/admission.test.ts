// One token that asks for all it can get, and what others notice of it; over a real server.

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  createClient,
  createToken,
  deployInstall,
  JSON_BODY_BYTES_MAX,
  listAgents,
  listAudit,
  listInstalls,
} from "@exclave/api";
import { BUDGETS } from "../access/request-budget.ts";
import { type TestServer, testServer, until } from "../testing/test-server.ts";

async function viewerOf({ client }: TestServer): Promise<string> {
  return (await client.call(createToken, { body: { name: "viewer", role: "viewer" } })).token;
}

function check({ url }: TestServer, token: string | undefined, body: string): Promise<Response> {
  return fetch(`${url}/v1/apps/check`, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    },
    body,
  });
}

test("a token that floods is refused with 429 and Retry-After, others are all answered", async (t) => {
  const server = await testServer(t);
  const viewer = await viewerOf(server);
  const { runningMax, waitingMax } = BUDGETS.token;
  const body = JSON.stringify({ config: "[".repeat(400_000) });
  const before = process.memoryUsage().rss;
  const answers: { readonly response: Response; readonly text: string }[] = [];
  const isRefused = ({ text }: { readonly text: string }) =>
    text.includes("requests of this caller are waiting");

  const flood = Array.from({ length: runningMax + waitingMax + 50 }, () =>
    check(server, viewer, body).then(
      async (response) => answers.push({ response, text: await response.text() }),
      () => undefined,
    ),
  );
  await until(
    async () => answers.some(isRefused),
    (isThere) => isThere,
    "a refusal",
  );
  // Each is answered while the flood waits; a refusal would be thrown.
  for (let n = 0; n < 20; n++) await server.client.call(listAgents);
  const grownBytes = process.memoryUsage().rss - before;
  await server.stop();
  await Promise.allSettled(flood);

  const refused = answers.filter(isRefused);
  for (const { response } of refused) {
    const { status, headers } = response;
    assert.equal(status, 429);
    assert.match(headers.get("content-type") ?? "", /^application\/problem\+json/);
    assert.ok(Number(headers.get("retry-after")) >= 1);
  }
  assert.ok(grownBytes < 400 * 1024 * 1024, `${grownBytes} bytes`);
});

test("a body is not read before it is known whose it is", async (t) => {
  const server = await testServer(t);

  const nobody = await check(server, undefined, "this is no JSON");
  const viewer = await check(server, await viewerOf(server), "this is no JSON");

  assert.deepEqual([nobody.status, viewer.status], [401, 400]);
});

test("a body is as large as its call needs, not deeper, and its faults are said in a few lines", async (t) => {
  const server = await testServer(t);
  const post = async (path: string, body: string) => {
    const response = await fetch(`${server.url}${path}`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${server.token}` },
      body,
    });
    return { status: response.status, text: await response.text() };
  };
  const because = "x".repeat(JSON_BODY_BYTES_MAX);
  const deep = `{"name":"acme","app":"crm","inputs":{"a":${"[".repeat(100)}${"]".repeat(100)}}}`;
  const wrong = JSON.stringify({ allowDestroy: Array.from({ length: 20_000 }, () => 1) });
  const many = JSON.stringify({ allowDestroy: Array.from({ length: 60_000 }, () => 1) });
  const deploy = deployInstall.path.replace(":install", "acme");

  assert.equal((await post("/v1/installs/acme/destroy", JSON.stringify({ because }))).status, 413);
  assert.match((await post("/v1/installs", deep)).text, /nested over 64 deep/);
  assert.match((await post(deploy, many)).text, /over 50000 values/);
  const { status, text } = await post(deploy, wrong);
  assert.equal(status, 400);
  assert.match(text, /and 19990 more/);
  assert.ok(text.length < 5_000, `${text.length}`);
});

test("a page of a list has a bounded number of items", async (t) => {
  const server = await testServer(t);

  await assert.rejects(server.client.call(listInstalls, { query: { limit: 201 } }), /limit/);
  await server.client.call(listInstalls, { query: { limit: 200 } });
  await assert.rejects(server.client.call(listAudit, { query: { limit: 201 } }), /limit/);
});

test("the record is read in pages, from its beginning and from its end", async (t) => {
  const { client, server } = await testServer(t);
  const { store, now } = server.context;
  await store.transaction(async (tx) => {
    const entry = { at: now(), actor: "test", action: "noted", subject: "thing", details: {} };
    for (let n = 0; n < 250; n++) await tx.audit.append(entry);
  });
  const { size } = await client.call(listAudit, { query: { limit: 1 } });
  const readAll = async (query: { newest?: "true" }, place: "after" | "before") => {
    const seqs: number[][] = [];
    let next: string | null | undefined;
    while (next !== null) {
      const from = next === undefined ? {} : { [place]: next };
      const page = await client.call(listAudit, { query: { ...query, ...from } });
      seqs.push(page.items.map(({ seq }) => seq));
      next = page.next;
    }
    return seqs;
  };

  const forward = await readAll({}, "after");
  const backward = await readAll({ newest: "true" }, "before");

  const all = Array.from({ length: size }, (_, n) => n + 1);
  assert.deepEqual([forward.flat(), backward.toReversed().flat()], [all, all]);
  assert.deepEqual([forward[0]?.length, backward[0]?.length], [200, 200]);
});

test("a client retries a read that was refused with 429, after the time it was told", async (t) => {
  const server = await testServer(t);
  const waits: number[] = [];
  const timers = { sleep: async (ms: number) => void waits.push(ms) };
  const answers = [429, 429, 200];
  const fetched = globalThis.fetch;
  t.mock.method(globalThis, "fetch", (...request: Parameters<typeof fetch>) => {
    const status = answers.shift();
    if (status !== 429) return fetched(...request);
    return Promise.resolve(new Response("{}", { status, headers: { "retry-after": "3" } }));
  });

  const client = createClient({ url: server.url, token: server.token, timers });
  await client.call(listAgents);

  assert.equal(waits.length, 2);
  assert.ok(
    waits.every((ms) => ms >= 3_000 && ms < 4_000),
    waits.join(),
  );
  answers.unshift(429);
  await assert.rejects(client.call(createToken, { body: { name: "x", role: "viewer" } }));
});
