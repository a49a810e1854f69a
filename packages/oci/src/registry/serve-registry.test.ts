import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { test } from "node:test";
import { createRegistryClient } from "../client/registry-client.ts";
import { mintToken } from "../credentials/token.ts";
import { temporaryDirectory } from "../testing/temporary-directory.ts";
import { serveRegistry } from "./serve-registry.ts";

test("a token that names every repository of a large release is read", async (t) => {
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  const names = { service: "own", issuer: "agent" };
  const registry = await serveRegistry({
    directory: await temporaryDirectory(t),
    host: "127.0.0.1",
    port: 0,
    auth: { kind: "token", realm: "http://unused.invalid", publicKeys: [publicKey], ...names },
  });
  t.after(() => registry.close());
  const access = Array.from({ length: 1_000 }, (_, n) => ({
    type: "repository" as const,
    name: `installs/acme/apps/crm/component-${n}`,
    actions: ["pull", "push"] as const,
  }));
  const token = await mintToken({
    privateKey,
    issuer: names.issuer,
    audience: names.service,
    subject: "acme",
    access,
    ttlMs: 60_000,
    now: Date.now(),
    jti: "one",
  });
  const client = createRegistryClient({ url: registry.url, token });
  t.after(() => client.close());

  const found = await client.headManifest(access[999]?.name ?? "", "latest");

  assert.ok(token.length > 64 * 1024);
  assert.equal(found, undefined);
});
