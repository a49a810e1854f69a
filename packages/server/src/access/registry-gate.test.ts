// A registry behind the server's gate, as agents with tokens, and without, meet it.

import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { type TestContext, test } from "node:test";
import type { Digest } from "@exclave/core";
import {
  copyArtifact,
  createMemoryStore,
  createRegistry,
  createRegistryClient,
  digestOf,
  MEDIA_TYPES,
  mintToken,
  writeBlobBytes,
} from "@exclave/oci";
import { temporaryDirectory } from "../testing/temporary-directory.ts";
import { testServer } from "../testing/test-server.ts";
import { flushRepeats } from "./note-refusal.ts";
import { createRegistryGate } from "./registry-gate.ts";
import { BUDGETS, type BudgetLimits, createRequestBudgets } from "./request-budget.ts";

const KEYS = generateKeyPairSync("ed25519");
const AUTH = { issuer: "exclave", service: "test-registry" };
const NOTHING = `sha256:${"0".repeat(64)}` as Digest;

async function guarded(t: TestContext, limits: Partial<BudgetLimits> = {}) {
  const { context } = (await testServer(t)).server;
  const budgets = { ...BUDGETS, registry: { ...BUDGETS.registry, ...limits } };
  const registry = createRegistry({
    directory: await temporaryDirectory(t),
    auth: {
      kind: "token",
      realm: "https://exclave.example/token",
      publicKeys: [KEYS.publicKey],
      ...AUTH,
    },
    gate: createRegistryGate(context, createRequestBudgets({ budgets })),
  });
  const http = createServer((request, response) => void registry.handle(request, response));
  http.listen(0, "127.0.0.1");
  await once(http, "listening");
  t.after(async () => {
    http.closeAllConnections();
    http.close();
    await registry.close();
  });
  const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
  const get = (token: string | undefined, path = "/v2/") =>
    fetch(`${url}${path}`, {
      headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
    });
  return { url, get, context };
}

let minted = 0;
function tokenOf(subject: string, options: { now?: number; digests?: Digest[] } = {}) {
  const { now = Date.now(), digests } = options;
  return mintToken({
    privateKey: KEYS.privateKey,
    issuer: AUTH.issuer,
    audience: AUTH.service,
    subject,
    access: [{ type: "repository", name: "a", actions: ["pull", "push"] }],
    digests,
    ttlMs: 60_000,
    now,
    jti: `${minted++}`,
  });
}

async function recorded({ context }: Awaited<ReturnType<typeof guarded>>, action: string) {
  await flushRepeats(context, { all: true });
  return (await context.store.read.audit.newest(200)).filter((row) => row.action === action);
}

test("an agent with ever new tokens has one budget, and takes nothing from another", async (t) => {
  // What is left after five is above nothing, if only just.
  const limits = { burst: 5, perSecond: 0.001, waitingMax: 0 };
  const { get } = await guarded(t, limits);

  const statuses: number[] = [];
  for (let n = 0; n < 8; n++) {
    const { status, headers } = await get(await tokenOf("greedy"));
    statuses.push(status);
    if (status === 429) assert.ok(Number(headers.get("retry-after")) >= 1);
  }

  assert.deepEqual(statuses, [200, 200, 200, 200, 200, 200, 429, 429]);
  assert.equal((await get(await tokenOf("modest"))).status, 200);
});

test("a copy that is told to wait does, and brings everything", async (t) => {
  const { url } = await guarded(t, { runningMax: 2, waitingMax: 2, burst: 60, perSecond: 200 });
  const to = createRegistryClient({ url, token: await tokenOf("agent"), backoffMs: 20 });
  t.after(() => to.close());
  const from = createMemoryStore();
  const layers = await Promise.all(
    Array.from({ length: 24 }, (_, n) =>
      writeBlobBytes(from, "a", MEDIA_TYPES.files, Buffer.from(`layer ${n}`)),
    ),
  );
  const [config] = layers;
  const manifest = { schemaVersion: 2, mediaType: MEDIA_TYPES.manifest, config, layers };
  const bytes = Buffer.from(JSON.stringify(manifest));
  await from.writeManifest("a", bytes, MEDIA_TYPES.manifest);
  const source = { repository: "a", digest: digestOf(bytes) };

  let throttled = 0;
  to.onThrottle(() => throttled++);
  await copyArtifact({ from, to, source, target: { repository: "a" } });

  assert.equal((await to.headManifest("a", source.digest))?.digest, source.digest);
  assert.ok(throttled > 0, "it was never told to wait");
});

test("tokens that are not ours are failed logins: on record, and answered late or not at all", async (t) => {
  const at = await guarded(t);
  const forged = `${(await tokenOf("agent")).slice(0, -8)}AAAAAAAA`;

  const statuses = await Promise.all(
    Array.from({ length: 40 }, async () => (await at.get(forged)).status),
  );

  assert.ok(statuses.includes(401));
  assert.ok(statuses.includes(429), "no more wait than a bounded number");
  const [row] = await recorded(at, "login.failed");
  assert.equal(row?.details["more"], 39);
  assert.ok(!JSON.stringify(row).includes(forged.slice(-20)));
});

test("no token, and one that has expired, is a client on its way to the next", async (t) => {
  const at = await guarded(t);
  const old = await tokenOf("agent", { now: Date.now() - 3_600_000 });

  for (let n = 0; n < 40; n++) {
    assert.equal((await at.get(undefined)).status, 401);
    assert.equal((await at.get(old)).status, 401);
  }

  assert.deepEqual(await recorded(at, "login.failed"), []);
});

test("asking for digests a token does not open is on record and costs more", async (t) => {
  const at = await guarded(t, { burst: 50, perSecond: 0.001, waitingMax: 0 });
  const token = await tokenOf("agent", { digests: [digestOf(Buffer.from("mine"))] });

  const statuses: number[] = [];
  for (let n = 0; n < 4; n++) statuses.push((await at.get(token, `/v2/a/blobs/${NOTHING}`)).status);

  assert.deepEqual(statuses, [403, 403, 403, 429]);
  const [row] = await recorded(at, "call.denied");
  assert.deepEqual([row?.actor, row?.subject], ["agent", "GET /v2 blob"]);
});
