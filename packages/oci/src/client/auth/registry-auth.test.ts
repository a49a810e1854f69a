// The Docker token flow against a real registry of ours and a token service in the same process.

import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, type TestContext, test } from "node:test";
import { Failure } from "@exclave/core";
import { writeBlobBytes } from "../../content/content-store.ts";
import { MEDIA_TYPES } from "../../content/descriptor.ts";
import { copyArtifact } from "../../copy/copy.ts";
import { mintToken } from "../../credentials/token.ts";
import { createRegistry } from "../../registry/registry.ts";
import { temporaryDirectory } from "../../testing/temporary-directory.ts";
import { createRegistryClient } from "../registry-client.ts";
import type { Credential } from "./credential.ts";
import { createRegistryAuthorizer, parseChallenge } from "./registry-auth.ts";
import { scopeOf } from "./scope.ts";

interface Asked {
  readonly method: string;
  readonly authorization: string | undefined;
  readonly scopes: readonly string[];
  readonly form: URLSearchParams;
}

async function listening(t: TestContext, server: Server): Promise<string> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** A registry that wants tokens, and the service that gives them: to `me` with `secret`, to all to pull. */
async function world(t: TestContext, lifetimeSeconds = 300) {
  const keys = generateKeyPairSync("ed25519");
  const asked: Asked[] = [];
  const service = createServer((request, response) => {
    void (async () => {
      const answer = await give(request);
      response.writeHead(answer === undefined ? 401 : 200, { "content-type": "application/json" });
      response.end(JSON.stringify(answer ?? {}));
    })();
  });
  const realm = `${await listening(t, service)}/token`;
  const registry = createRegistry({
    directory: await temporaryDirectory(t),
    auth: {
      kind: "token",
      realm,
      service: "registry",
      issuer: "exclave",
      publicKeys: [keys.publicKey],
    },
  });
  const headers: (string | undefined)[] = [];
  const front = createServer((request, response) => {
    headers.push(request.headers.authorization);
    void registry.handle(request, response);
  });
  const url = await listening(t, front);
  t.after(() => registry.close());

  const client = (credential?: Credential) => {
    const made = createRegistryClient({ url, credentials: async () => credential, backoffMs: 1 });
    t.after(() => made.close());
    return made;
  };
  return { client, asked, headers, url };

  async function give(request: IncomingMessage) {
    const url = new URL(request.url ?? "", realm);
    let body = "";
    for await (const chunk of request) body += String(chunk);
    const form = new URLSearchParams(body);
    const scopes = [...url.searchParams.getAll("scope"), ...(form.get("scope")?.split(" ") ?? [])];
    const { authorization } = request.headers;
    asked.push({ method: request.method ?? "", authorization, scopes, form });

    const basic = `Basic ${Buffer.from("me:secret").toString("base64")}`;
    const isMe = authorization === basic || form.get("refresh_token") === "long-lived";
    if (!isMe && (authorization !== undefined || request.method === "POST")) return undefined;
    const access = scopes.map((scope) => {
      const [, name = "", actions = ""] = scope.split(":");
      return {
        type: "repository" as const,
        name,
        actions: actions.split(",").filter((action) => isMe || action === "pull") as "pull"[],
      };
    });
    const token = await mintToken({
      privateKey: keys.privateKey,
      issuer: "exclave",
      audience: "registry",
      subject: isMe ? "me" : "anyone",
      access,
      ttlMs: 60_000,
      now: Date.now(),
      jti: String(asked.length),
    });
    return { token, expires_in: lifetimeSeconds };
  }
}

const ME: Credential = { kind: "basic", username: "me", password: "secret" };

describe("the Docker token flow", () => {
  test("gets a token once per repository and action, and uses it from then on", async (t) => {
    const { client, asked, headers } = await world(t);
    const me = client(ME);

    await writeBlobBytes(me, "a", "text/plain", Buffer.from("one"));
    const before = asked.length;
    headers.length = 0;
    await writeBlobBytes(me, "a", "text/plain", Buffer.from("two"));

    assert.deepEqual(
      asked.map(({ scopes }) => scopes.join()),
      ["repository:a:pull", "repository:a:pull,push"],
    );
    assert.equal(asked.length, before);
    assert.ok(headers.every((header) => header?.startsWith("Bearer ")));
  });

  test("asks for another when the first is about to end", async (t) => {
    t.mock.timers.enable({ apis: ["Date"], now: Date.now() });
    const { client, asked } = await world(t, 0);
    const me = client(ME);
    await me.tags("a");

    t.mock.timers.tick(11_000);
    await me.tags("a");

    assert.equal(asked.length, 2);
  });

  test("reads in the open what is open to everyone, and may not write there", async (t) => {
    const { client, asked } = await world(t);
    const anyone = client();

    assert.deepEqual(await anyone.tags("a"), []);
    await assert.rejects(
      writeBlobBytes(anyone, "a", "text/plain", Buffer.from("x")),
      failsWith("forbidden", "unauthenticated"),
    );

    assert.equal(asked[0]?.authorization, undefined);
  });

  test("turns a refresh token into others", async (t) => {
    const { client, asked } = await world(t);
    const me = client({ kind: "refresh", token: "long-lived" });

    await writeBlobBytes(me, "a", "text/plain", Buffer.from("one"));

    assert.equal(asked[0]?.method, "POST");
    assert.equal(asked[0]?.form.get("grant_type"), "refresh_token");
    assert.equal(asked[0]?.form.get("service"), "registry");
  });

  test("says that a wrong password is refused, and does not try it again", async (t) => {
    const { client, asked } = await world(t);
    const wrong = client({ kind: "basic", username: "me", password: "wrong" });

    await assert.rejects(wrong.tags("a"), failsWith("unauthenticated"));

    assert.equal(asked.length, 1);
  });

  test("copies with it on both sides, mounting with the right to read where it mounts from", async (t) => {
    const { client, asked } = await world(t);
    const me = client(ME);
    const layer = await writeBlobBytes(me, "a", MEDIA_TYPES.layerTar, Buffer.alloc(300_000, 1));
    const config = await writeBlobBytes(me, "a", MEDIA_TYPES.empty, Buffer.from("{}"));
    const manifest = { schemaVersion: 2, mediaType: MEDIA_TYPES.manifest, config, layers: [layer] };
    const bytes = Buffer.from(JSON.stringify(manifest));
    const digest = await me.writeManifest("a", bytes, MEDIA_TYPES.manifest);

    const result = await copyArtifact({
      from: client(ME),
      to: client(ME),
      source: { repository: "a", digest },
      target: { repository: "b" },
      mountFrom: ["a"],
    });

    assert.equal(result.mountedBytes, 300_002);
    assert.ok(
      asked.some(({ scopes }) => scopes.includes("repository:a:pull") && scopes.length === 2),
    );
  });
});

describe("Basic", () => {
  test("is used where the registry asks for it", async (t) => {
    const seen: (string | undefined)[] = [];
    const server = createServer((request, response) => {
      seen.push(request.headers.authorization);
      if (request.headers.authorization) response.end(`{"tags":["v1"]}`);
      else response.writeHead(401, { "www-authenticate": `Basic realm="here"` }).end();
    });
    const url = await listening(t, server);
    const client = createRegistryClient({ url, credentials: async () => ME });
    t.after(() => client.close());

    assert.deepEqual(await client.tags("a"), ["v1"]);
    await client.tags("a");

    const header = `Basic ${Buffer.from("me:secret").toString("base64")}`;
    assert.deepEqual(seen, [undefined, header, header]);
  });
});

describe("what is kept for one host", () => {
  test("stays there when a blob is somewhere else, also over the fast path", async (t) => {
    const content = Buffer.from("from storage");
    const seen: (string | undefined)[] = [];
    const storage = createServer((request, response) => {
      seen.push(request.headers.authorization);
      response.writeHead(200, { "content-length": content.length }).end(content);
    });
    const elsewhere = await listening(t, storage);
    const front = createServer((request, response) => {
      seen.push(request.headers.authorization);
      response.writeHead(307, { location: `${elsewhere}/blob` }).end();
    });
    const client = createRegistryClient({ url: await listening(t, front), token: "secret" });
    t.after(() => client.close());
    const chunks: string[] = [];

    const digest = `sha256:${"0".repeat(64)}` as never;
    await client.pourBlob("a", digest, async (chunk) => {
      chunks.push(Buffer.from(chunk).toString());
    });

    assert.deepEqual(chunks, ["from storage"]);
    assert.deepEqual(seen, ["Bearer secret", undefined]);
  });

  test("is not sent in the clear because an https registry names such a place", async () => {
    const authorizer = createRegistryAuthorizer({
      base: new URL("https://registry.example.com"),
      credentials: async () => ME,
    });

    const challenged = authorizer.challenged({
      wanted: `Bearer realm="http://127.0.0.1:1/token",service="x"`,
      scope: { repository: "a", action: "pull" },
      sent: undefined,
    });

    await assert.rejects(challenged, failsWith("forbidden"));
  });
});

test("a challenge is read with its quotes, commas and spaces", () => {
  const header = `Bearer realm="https://a.example/token?x=1,2", service=plain,scope="repository:a/b:pull,push repository:c:pull"`;

  assert.deepEqual(parseChallenge(header), {
    scheme: "bearer",
    parameters: {
      realm: "https://a.example/token?x=1,2",
      service: "plain",
      scope: "repository:a/b:pull,push repository:c:pull",
    },
  });
});

test("what a request needs follows from its path", () => {
  const scope = (method: string, path: string) => {
    const found = scopeOf(method, new URL(path, "https://r"));
    return found && `${found.repository} ${found.action} ${found.mountFrom ?? ""}`.trim();
  };

  assert.equal(scope("GET", "/v2/a/b/blobs/sha256:x"), "a/b pull");
  assert.equal(scope("GET", "/v2/a/blobs/uploads/id"), "a push");
  assert.equal(scope("PUT", "/v2/a/manifests/v1"), "a push");
  assert.equal(scope("POST", "/v2/a/blobs/uploads/?mount=d&from=b"), "a push b");
  assert.equal(scope("GET", "/v2/"), undefined);
});

function failsWith(...codes: string[]) {
  return (reason: unknown) => reason instanceof Failure && codes.includes(reason.code);
}
