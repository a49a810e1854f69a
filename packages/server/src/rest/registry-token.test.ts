import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { describe, type TestContext, test } from "node:test";
import { JobId } from "@exclave/core";
import { createRegistryClient, digestOf, givenAccess } from "@exclave/oci";
import { fastify } from "fastify";
import { BUDGETS, createRequestBudgets } from "../access/request-budget.ts";
import { narrow } from "../job/grants.ts";
import { refNamed } from "../testing/rows.ts";
import { connectAgent, joinVendorAgent } from "../testing/scripted-agent.ts";
import { buildAgent, release } from "../testing/scripted-vendor.ts";
import { assertOnRecord, type TestServer, testServer, until } from "../testing/test-server.ts";
import { createAdmission } from "./admission.ts";
import { problemOf } from "./handler.ts";
import { addRegistryTokenRoute } from "./registry-token.ts";

const ONE = "app: crm\ncomponents:\n  - { name: api, type: command, source: ./api }\n";

/** A build job that runs, and what its agent was given for it. */
async function runningBuild(t: TestContext, now: () => number = Date.now) {
  const server = await testServer(t, { now });
  const agent = await buildAgent(server, async () => undefined);
  void release(server, ONE, { api: "source" }).catch(() => undefined);
  await until(
    async () => agent.offered.length,
    (count) => count === 1,
    "the offer",
  );
  const job = JobId.parse(agent.offered[0]?.id);
  const { grant } = await agent.grant(job);
  assert.ok(grant?.credential);
  const repository = `apps/${agent.offered[0]?.app}/api`;
  return { server, agent, job, repository, url: grant.registryUrl, credential: grant.credential };
}

async function ask({ url }: TestServer, form: Record<string, string>) {
  return fetch(`${url}/v1/registry/token`, { method: "POST", body: new URLSearchParams(form) });
}

function claimsOf(token: string): {
  access: unknown;
  digests?: string[];
  exp: number;
  iat: number;
} {
  return JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString("utf8"));
}

describe("a job's credential", () => {
  test("is taken for tokens of minutes, each for what is asked and allowed", async (t) => {
    const { server, repository, credential } = await runningBuild(t);
    const form = { grant_type: "refresh_token", refresh_token: credential };

    const mine = await ask(server, { ...form, scope: `repository:${repository}:pull,push,delete` });
    const foreign = await ask(server, { ...form, scope: "repository:apps/other/api:pull" });

    const { access_token: token, expires_in: seconds } = (await mine.json()) as {
      access_token: string;
      expires_in: number;
    };
    const { access, exp, iat } = claimsOf(token);
    assert.deepEqual(access, [{ type: "repository", name: repository, actions: ["pull", "push"] }]);
    assert.deepEqual([seconds, exp - iat], [300, 300]);
    const { token: nothing } = (await foreign.json()) as { token: string };
    assert.deepEqual(claimsOf(nothing).access, []);
    await assertOnRecord(server, "grant.given", "grant.given", "grant.given");
  });

  test("opens the registry for the client of a job, and is no token itself", async (t) => {
    const { server, repository, url, credential } = await runningBuild(t);
    const client = createRegistryClient({ url, ...givenAccess({ credential }) });
    t.after(() => client.close());
    const bytes = Buffer.from("layer");
    const digest = digestOf(bytes);

    await client.writeBlob(repository, { digest, size: bytes.length }, async function* () {
      yield bytes;
    });

    assert.equal(await client.headBlob(repository, digest), bytes.length);
    await assert.rejects(client.headBlob("apps/other/api", digest), /401/);
    const direct = await fetch(`${server.url}/v2/`, {
      headers: { authorization: `Bearer ${credential}` },
    });
    assert.equal(direct.status, 401);
  });

  test("goes on when a token has ended, as long as the job does", async (t) => {
    let passed = 0;
    const { repository, url, credential } = await runningBuild(t, () => Date.now() + passed);
    const client = createRegistryClient({ url, ...givenAccess({ credential }) });
    t.after(() => client.close());
    const write = async (text: string) => {
      const bytes = Buffer.from(text);
      const descriptor = { digest: digestOf(bytes), size: bytes.length };
      await client.writeBlob(repository, descriptor, async function* () {
        yield bytes;
      });
      return client.headBlob(repository, descriptor.digest);
    };

    assert.equal(await write("at once"), 7);
    passed = 45 * 60_000;
    assert.equal(await write("after most of an hour"), 21);
  });

  test("is worth nothing once the job has ended, or when it was altered", async (t) => {
    const { server, agent, job, credential } = await runningBuild(t);
    const form = { grant_type: "refresh_token", scope: "repository:apps/crm/api:pull" };
    const other = await connectAgent(await joinVendorAgent(server, "setup"));

    const altered = await ask(server, { ...form, refresh_token: `${credential.slice(0, -4)}AAAA` });
    await agent.say({
      type: "job_ended",
      at: 1,
      job,
      attempt: 1,
      outcome: { kind: "failed", code: "tool", message: "exit 1" },
      outputs: [],
      artifacts: [],
      logBytes: 0,
      logSha256: createHash("sha256").digest("hex"),
    });
    const late = await ask(server, { ...form, refresh_token: credential });

    assert.equal(altered.status, 401);
    assert.equal(late.status, 401);
    assert.match(await late.text(), /the job has ended/);
    assert.match((await other.grant(job)).refused ?? "", /not a job of this agent/);
  });

  test("is worth nothing once its agent is not trusted any more", async (t) => {
    const { server, credential } = await runningBuild(t);
    const { store } = server.server.context;
    await store.transaction(async (tx) => {
      const [agent] = (await tx.agents.list({ limit: 1 })).items;
      assert.ok(agent);
      await tx.agents.put({ ...agent, revokedAt: agent.joinedAt });
    });

    const scope = "repository:apps/crm/api:pull";
    const form = { grant_type: "refresh_token", refresh_token: credential, scope };
    const response = await ask(server, form);

    assert.equal(response.status, 401);
    assert.match(await response.text(), /not trusted any more/);
  });

  test("another form than a refresh is refused with what to send", async (t) => {
    const server = await testServer(t);

    const response = await ask(server, { grant_type: "password", username: "me" });

    assert.equal(response.status, 400);
    assert.match(await response.text(), /grant_type=refresh_token/);
  });
});

test("an agent gets so many tokens and no more, whatever credential it shows", async (t) => {
  const { server, agent, job, credential } = await runningBuild(t);
  const { context } = server.server;
  const another = (await agent.grant(job)).grant?.credential;
  const registryToken = { ...BUDGETS.registryToken, burst: 4, waitingMax: 0 };
  // Time stands still: nothing is refilled, however long this takes.
  const budgets = createRequestBudgets({ now: () => 0, budgets: { ...BUDGETS, registryToken } });
  const app = fastify();
  t.after(() => app.close());
  app.setErrorHandler((reason, _request, reply) =>
    reply.code(problemOf(reason).status).send(problemOf(reason)),
  );
  addRegistryTokenRoute(
    app,
    () => context,
    createAdmission(() => context, budgets),
  );
  const askWith = async (method: "GET" | "POST", options: object) =>
    (await app.inject({ method, url: "/v1/registry/token", ...options })).statusCode;
  const refresh = (token: string | undefined) =>
    askWith("POST", {
      headers: { "content-type": "application/x-www-form-urlencoded" },
      payload: `grant_type=refresh_token&refresh_token=${token}`,
    });

  const statuses: number[] = [];
  for (const one of [credential, another, credential, another, credential, another]) {
    statuses.push(await refresh(one));
  }
  const password = Buffer.from(`me:${server.token}`).toString("base64");
  const person = await askWith("GET", { headers: { authorization: `Basic ${password}` } });

  assert.deepEqual(statuses, [200, 200, 200, 200, 429, 429]);
  assert.equal(person, 200, "somebody else has a budget of their own");
});

test("a source is read with the token of its build, and a failed login is on record", async (t) => {
  const { server, agent, job } = await runningBuild(t);
  const { grant } = await agent.grant(job);
  const get = (token: string) =>
    fetch(String(grant?.sourceUrl), { headers: { authorization: `Bearer ${token}` } });

  const mine = await get(String(grant?.sourceToken));
  const forged = await get("not-a-token");

  assert.deepEqual([mine.status, forged.status], [200, 401]);
  await assertOnRecord(server, "login.failed");
});

test("the token of somebody else is refused for a registry it is not of, and is on record", async (t) => {
  const server = await testServer(t);

  const { status } = await fetch(`${server.url}/v2/`, { headers: { authorization: "Bearer no" } });

  assert.equal(status, 401);
  await assertOnRecord(server, "login.failed");
});

test("a narrowed scope lists the digests of the repositories that were asked for", () => {
  const reads = ["apps/crm/api", "apps/crm/web"].map(refNamed);
  const access = reads.map(({ repository: name }) => ({
    type: "repository" as const,
    name,
    actions: ["pull" as const],
  }));
  const asked = [{ type: "repository" as const, name: "apps/crm/web", actions: ["pull" as const] }];

  assert.deepEqual(narrow({ access, reads }, asked), { access: [access[1]], reads: [reads[1]] });
});

test("headers have room for any token of a job, and end at 16 KiB", async (t) => {
  const { url } = await testServer(t);
  const statusWith = async (length: number) =>
    (await fetch(`${url}/healthz`, { headers: { "x-long": "x".repeat(length) } })).status;

  assert.equal(await statusWith(15 * 1024), 200);
  assert.equal(await statusWith(16 * 1024), 431);
});
