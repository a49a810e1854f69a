// Whatever is wrong with a token, the answer says so and the store is as it was before.

import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { describe, type TestContext, test } from "node:test";
import { digestOf } from "../content/digest.ts";
import { type MintToken, mintToken } from "../credentials/token.ts";
import { errorCode, filesOf, openRegistry } from "./testing/open-registry.ts";

describe("a token that is wrong opens nothing and changes nothing", () => {
  const ours = generateKeyPairSync("ed25519");
  const theirs = generateKeyPairSync("ed25519");

  async function guarded(t: TestContext) {
    const registry = await openRegistry(t, {
      auth: {
        kind: "token",
        realm: "https://exclave.example/token",
        service: "acme",
        issuer: "exclave",
        publicKeys: [ours.publicKey],
      },
    });
    const push = async (changes: Partial<MintToken>, query = "") => {
      const token = await mintToken({
        privateKey: ours.privateKey,
        issuer: "exclave",
        audience: "acme",
        subject: "build",
        access: [{ type: "repository", name: "a", actions: ["pull", "push"] }],
        ttlMs: 60_000,
        now: Date.now(),
        jti: "t",
        ...changes,
      });
      const path = `/v2/a/blobs/uploads/?${query || `digest=${digestOf("x")}`}`;
      const headers = { authorization: `Bearer ${token}` };
      return registry.send("POST", path, { headers, body: "x" });
    };
    return { registry, push };
  }

  test("one that is right is let in, so the others are refused for what is wrong with them", async (t) => {
    const { push } = await guarded(t);

    assert.equal((await push({})).status, 201);
  });

  // biome-ignore format: a table reads as a table.
  const WRONG: [string, Partial<MintToken>, string][] = [
    ["has expired",              { now: Date.now() - 120_000 },                                   "UNAUTHORIZED"],
    ["is not valid yet",         { now: Date.now() + 600_000 },                                   "UNAUTHORIZED"],
    ["is signed by another key", { privateKey: theirs.privateKey },                               "UNAUTHORIZED"],
    ["comes from someone else",  { issuer: "someone" },                                           "UNAUTHORIZED"],
    ["is for another registry",  { audience: "other" },                                           "UNAUTHORIZED"],
    ["is for another repository", { access: [{ type: "repository", name: "b", actions: ["pull", "push"] }] }, "DENIED"],
    ["is for a name that begins the same", { access: [{ type: "repository", name: "a/b", actions: ["pull", "push"] }] }, "DENIED"],
    ["may only pull",            { access: [{ type: "repository", name: "a", actions: ["pull"] }] }, "DENIED"],
    ["names nothing",            { access: [] },                                                  "DENIED"],
  ];
  for (const [what, changes, code] of WRONG) {
    test(`one that ${what} is 401 ${code}`, async (t) => {
      const { registry, push } = await guarded(t);

      const response = await push(changes);

      assert.equal(response.status, 401);
      assert.match(
        response.headers.get("www-authenticate") ?? "",
        /scope="repository:a:pull,push"/,
      );
      assert.equal(await errorCode(response), code);
      assert.deepEqual(await filesOf(registry), []);
    });
  }

  test("a mount from where the token may not pull is an upload, and no access", async (t) => {
    const { registry, push } = await guarded(t);
    const access = [{ type: "repository", name: "a", actions: ["pull", "push"] }] as const;
    const digest = digestOf("x");
    await push({});
    const mine = { access: [{ ...access[0], name: "b" }] };
    const token = await mintToken({
      privateKey: ours.privateKey,
      issuer: "exclave",
      audience: "acme",
      subject: "other",
      ttlMs: 60_000,
      now: Date.now(),
      jti: "t",
      ...mine,
    });
    const headers = { authorization: `Bearer ${token}` };

    const response = await registry.send("POST", `/v2/b/blobs/uploads/?mount=${digest}&from=a`, {
      headers,
    });

    assert.equal(response.status, 202);
    assert.equal((await registry.send("HEAD", `/v2/b/blobs/${digest}`, { headers })).status, 404);
  });
});
