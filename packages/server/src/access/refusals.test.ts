// Refusals, as a peer of a real server meets them and as the record has them afterwards.

import assert from "node:assert/strict";
import { test } from "node:test";
import { createClient, createToken, listAudit } from "@exclave/api";
import { type TestServer, testServer } from "../testing/test-server.ts";
import { flushRepeats } from "./note-refusal.ts";

async function recorded(server: TestServer, action: string) {
  await flushRepeats(server.server.context, { all: true });
  const { items } = await server.client.call(listAudit, { query: { limit: 200 } });
  return items.filter((row) => row.action === action);
}

const ask = ({ url }: TestServer, authorization: string | undefined) =>
  fetch(`${url}/v1/installs`, { headers: authorization === undefined ? {} : { authorization } });

test("failed logins are on record as a few rows, without what was presented", async (t) => {
  const server = await testServer(t);
  const wrong = "exclave_not-a-token-of-this-server";

  for (let n = 0; n < 8; n++) assert.equal((await ask(server, `Bearer ${wrong}`)).status, 401);
  const basic = Buffer.from(`me:${wrong}`).toString("base64");
  const password = await fetch(`${server.url}/v1/registry/token`, {
    headers: { authorization: `Basic ${basic}` },
  });
  const join = await fetch(`${server.url}/v1/agents/join`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      secret: wrong,
      identityKey: "AA==",
      sealingKey: "AA==",
      trustDigest: `sha256:${"0".repeat(64)}`,
      proof: "AA==",
    }),
  });

  assert.deepEqual([password.status, join.status], [401, 401]);
  const rows = await recorded(server, "login.failed");
  assert.equal(rows.length, 2, JSON.stringify(rows));
  assert.equal(rows[0]?.subject, "127.0.0.1");
  assert.equal(rows[1]?.details["more"], 9);
  assert.ok(!JSON.stringify(rows).includes(wrong.slice(0, 14)));
});

test("the more logins fail, the later they are answered; a token that is right does not wait", async (t) => {
  const server = await testServer(t);
  const failing = Promise.all(
    Array.from({ length: 40 }, async () => (await ask(server, "Bearer exclave_wrong")).status),
  );

  // While others fail from the very same address.
  const good = await ask(server, `Bearer ${server.token}`);
  assert.equal(good.status, 200);

  const statuses = await failing;
  assert.ok(statuses.includes(401));
  assert.ok(statuses.includes(429), "no more wait than a bounded number");
});

test("a denied call names who made it and what it asked for, once a minute", async (t) => {
  const server = await testServer(t);
  const made = await server.client.call(createToken, { body: { name: "ci", role: "viewer" } });
  const viewer = createClient({ url: server.url, token: made.token });

  for (let n = 0; n < 5; n++) {
    await assert.rejects(viewer.call(createToken, { body: { name: "more", role: "admin" } }));
  }

  const rows = await recorded(server, "call.denied");
  assert.deepEqual(
    rows.map(({ actor, subject, details }) => [actor, subject, details["more"]]),
    [
      ["token:ci", "POST /v1/tokens", undefined],
      ["token:ci", "POST /v1/tokens", 4],
    ],
  );
});

test("uploads and refused uploads are on record", async (t) => {
  const server = await testServer(t);
  const put = (digest: string) =>
    fetch(`${server.url}/v1/sources/${digest}`, {
      method: "PUT",
      headers: {
        authorization: `Bearer ${server.token}`,
        "content-type": "application/octet-stream",
      },
      body: "",
    });
  const empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

  assert.equal((await put(empty)).status, 201);
  assert.equal((await put(`sha256:${"0".repeat(64)}`)).status, 400);

  const [uploaded] = await recorded(server, "source.uploaded");
  const [refused] = await recorded(server, "upload.refused");
  assert.deepEqual([uploaded?.actor, uploaded?.subject], ["token:admin", empty]);
  assert.equal(refused?.actor, "token:admin");
});
