// What happens after a registry has said 401: to requests side by side, and to what has been renewed.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { type TestContext, test } from "node:test";
import { Failure } from "@exclave/core";
import { createRegistryClient, type RegistryClient } from "../registry-client.ts";
import type { Credential } from "./credential.ts";

const DIGEST = `sha256:${"0".repeat(64)}` as never;
const SIDE_BY_SIDE = 3;

interface Door {
  /** The header it takes; may change while it stands. */
  opens: string;
  readonly wanted: string;
  /** How many requests without a header it waits for before it refuses them all. */
  readonly gathers?: number;
}

/** Answers 201 to whoever has the right header. */
async function clientOf(
  t: TestContext,
  door: Door,
  credentials: (host: string, repository?: string) => Promise<Credential | undefined>,
): Promise<RegistryClient> {
  const refused: ServerResponse[] = [];
  const server = createServer((request, response) => {
    if (request.headers.authorization === door.opens) {
      response.writeHead(201).end();
      return;
    }
    refused.push(response);
    if (refused.length < (door.gathers ?? 1)) return;
    for (const waiting of refused.splice(0)) {
      waiting.writeHead(401, { "www-authenticate": door.wanted }).end();
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const client = createRegistryClient({ url, credentials, backoffMs: 1, attemptsMax: 1 });
  t.after(() => {
    client.close();
    server.closeAllConnections();
    server.close();
  });
  return client;
}

function basic(password: string) {
  return {
    credential: { kind: "basic", username: "me", password } as const,
    header: `Basic ${Buffer.from(`me:${password}`).toString("base64")}`,
  };
}

const KINDS = [
  { name: "a name and a password", wanted: `Basic realm="here"`, ...basic("secret") },
  {
    name: "a token of the registry's own",
    wanted: `Bearer realm="http://127.0.0.1:1/token"`,
    credential: { kind: "bearer", token: "t" } as const,
    header: "Bearer t",
  },
];

for (const { name, wanted, credential, header } of KINDS) {
  test(`requests side by side all retry with ${name} when all of them are refused`, async (t) => {
    const door = { opens: header, wanted, gathers: SIDE_BY_SIDE };
    const client = await clientOf(t, door, async () => credential);

    const mounts = Array.from({ length: SIDE_BY_SIDE }, () => client.mountBlob("b", "a", DIGEST));

    assert.deepEqual(await Promise.all(mounts), [true, true, true]);
  });
}

test("a password that was changed is asked for again", async (t) => {
  let current = basic("old");
  const door = { opens: current.header, wanted: `Basic realm="here"` };
  const client = await clientOf(t, door, async () => current.credential);
  await client.mountBlob("b", "a", DIGEST);

  current = basic("new");
  door.opens = current.header;

  assert.equal(await client.mountBlob("b", "a", DIGEST), true);
});

test("a password that is wrong is not tried twice", async (t) => {
  const door = { opens: basic("right").header, wanted: `Basic realm="here"` };
  const client = await clientOf(t, door, async () => basic("wrong").credential);

  for (const _ of [1, 2]) {
    await assert.rejects(
      client.mountBlob("b", "a", DIGEST),
      (reason) => reason instanceof Failure && reason.code === "unauthenticated",
    );
  }

  // Without it, with it; and the second time with it alone.
  assert.equal(client.requests, 3);
});

test("each repository is opened with what is kept for it", async (t) => {
  const door = { opens: basic("of team-b/app").header, wanted: `Basic realm="here"` };
  const client = await clientOf(
    t,
    door,
    async (_host, repository) => basic(`of ${repository}`).credential,
  );

  await assert.rejects(client.mountBlob("b", "team-a/app", DIGEST), Failure);

  assert.equal(await client.mountBlob("b", "team-b/app", DIGEST), true);
});
