// Who may do what, walked: every call with every role, and with none.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { CALLS, type Call, createClient, createToken, type Role, revokeToken } from "@exclave/api";
import { type TestServer, testServer } from "../testing/test-server.ts";

const ROLES: readonly Role[] = ["viewer", "operator", "admin"];

const PARAMS: Record<string, string> = {
  digest: `sha256:${"0".repeat(64)}`,
  release: "rnone",
  app: "crm",
  channel: "stable",
  install: "acme",
  component: "api",
  job: "jnone",
  token: "tnone",
};

/** The status of a call with a body that is wrong on purpose: whoever may ask gets as far as that. */
async function ask({ url }: TestServer, call: Call, token: string | undefined): Promise<number> {
  const path = call.path.replaceAll(/:([a-z]+)/g, (_, name: string) => PARAMS[name] ?? "");
  const stop = new AbortController();
  const response = await fetch(url + path, {
    method: call.method,
    headers: {
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      ...(call.consumes === "json" ? { "content-type": "application/json" } : {}),
      ...(call.consumes === "bytes" ? { "content-type": "application/octet-stream" } : {}),
    },
    ...(call.consumes === "json" ? { body: JSON.stringify("wrong") } : {}),
    ...(call.consumes === "bytes" ? { body: "wrong" } : {}),
    signal: stop.signal,
  });
  // The stream of events would go on for ever.
  stop.abort();
  return response.status;
}

test("every call is open to the roles it names and to nobody else", async (t) => {
  const server = await testServer(t);
  const tokens = new Map<string, string>();
  for (const role of ROLES) {
    const { token } = await server.client.call(createToken, { body: { name: role, role } });
    tokens.set(role, token);
  }

  for (const call of CALLS) {
    for (const role of [undefined, ...ROLES]) {
      const status = await ask(server, call, role && tokens.get(role));
      const rank = role === undefined ? -1 : ROLES.indexOf(role);
      const needed = call.access === "public" ? -1 : ROLES.indexOf(call.access);
      const who = `${call.name} as ${role ?? "nobody"}: ${status}`;
      if (rank >= needed) assert.ok(status !== 401 && status !== 403, who);
      else assert.equal(status, role === undefined ? 401 : 403, who);
    }
  }
});

describe("tokens", () => {
  test("end when they are revoked, expire, or never were", async (t) => {
    const server = await testServer(t);
    const made = await server.client.call(createToken, { body: { name: "ci", role: "viewer" } });
    const installs = (token: string) =>
      fetch(`${server.url}/v1/installs`, { headers: { authorization: `Bearer ${token}` } });
    assert.equal((await installs(made.token)).status, 200);

    await server.client.call(revokeToken, { params: { token: made.id } });

    assert.equal((await installs(made.token)).status, 401);
    assert.equal((await installs("exclave_nothing")).status, 401);
    const wrongScheme = await fetch(`${server.url}/v1/installs`, {
      headers: { authorization: `Basic ${server.token}` },
    });
    assert.equal(wrongScheme.status, 401);
  });

  test("are kept as hashes only", async (t) => {
    const server = await testServer(t);
    const { token } = await server.client.call(createToken, {
      body: { name: "ci", role: "admin" },
    });

    const kept = JSON.stringify(await server.server.context.store.read.tokens.all());

    assert.ok(!kept.includes(token) && !kept.includes(server.token));
  });
});

describe("a request that is wrong", () => {
  test("gets a problem with a code, a status and a sentence", async (t) => {
    const { url, token } = await testServer(t);
    const post = (path: string, body: string) =>
      fetch(url + path, {
        method: "POST",
        body,
        headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      });
    const cases = [
      { response: await post("/v1/installs", "{"), status: 400, code: "invalid" },
      { response: await post("/v1/installs", "{}"), status: 400, code: "invalid", says: /name/ },
      {
        response: await post("/v1/nowhere", "{}"),
        status: 404,
        code: "not_found",
        says: /no POST/,
      },
      {
        response: await post("/v1/installs", JSON.stringify({ name: "x".repeat(3_000_000) })),
        status: 413,
        code: "too_large",
      },
    ];

    for (const { response, status, code, says = /./ } of cases) {
      assert.equal(response.status, status);
      assert.match(response.headers.get("content-type") ?? "", /application\/problem\+json/);
      const problem = (await response.json()) as { code: string; detail: string };
      assert.equal(problem.code, code);
      assert.match(problem.detail, says);
    }
  });

  test("a source that is not what its digest says is not kept", async (t) => {
    const server = await testServer(t);
    const digest = `sha256:${"1".repeat(64)}`;

    const response = await fetch(`${server.url}/v1/sources/${digest}`, {
      method: "PUT",
      body: "other bytes",
      headers: {
        authorization: `Bearer ${server.token}`,
        "content-type": "application/octet-stream",
      },
    });

    assert.equal(response.status, 400);
    assert.equal(await server.server.context.store.read.sources.get(digest), undefined);
  });
});

test("people's registry tokens pull, whatever they ask for", async (t) => {
  const server = await testServer(t);
  const basic = Buffer.from(`me:${server.token}`).toString("base64");
  const scope = "repository:apps/crm/api:pull,push";

  const response = await fetch(`${server.url}/v1/registry/token?scope=${scope}`, {
    headers: { authorization: `Basic ${basic}` },
  });
  const { token } = (await response.json()) as { token: string };

  const authorization = `Bearer ${token}`;
  const tags = await fetch(`${server.url}/v2/apps/crm/api/tags/list`, {
    headers: { authorization },
  });
  const upload = await fetch(`${server.url}/v2/apps/crm/api/blobs/uploads/`, {
    method: "POST",
    headers: { authorization },
  });
  assert.equal(tags.status, 404);
  assert.equal(upload.status, 401);
  assert.equal((await fetch(`${server.url}/v2/`)).status, 401);
});

test("OpenAPI, health and readiness are there for everybody", async (t) => {
  const { url } = await testServer(t);

  const document = (await (await fetch(`${url}/v1/openapi.json`)).json()) as { openapi: string };

  assert.equal(document.openapi, "3.1.0");
  assert.equal((await fetch(`${url}/healthz`)).status, 200);
  assert.equal((await fetch(`${url}/readyz`)).status, 200);
});

test("a watcher sees what happens as it happens", async (t) => {
  const server = await testServer(t);
  const stop = new AbortController();
  const { watchEvents } = await import("@exclave/api");
  const client = createClient({ url: server.url, token: server.token });
  const events = client.events(watchEvents, { signal: stop.signal })[Symbol.asyncIterator]();
  const first = events.next();

  // Said again until somebody listens: the stream has no word for "now I listen".
  const { live } = server.server.context;
  const saying = setInterval(() => {
    live.say({
      kind: "install",
      subject: "acme",
      install: { id: "iacmeaaaaaaaaaaaa", name: "acme" },
      component: null,
      message: "hello",
    });
  }, 20);
  const { value } = await first;
  clearInterval(saying);
  stop.abort();

  assert.equal(value.message, "hello");
});
