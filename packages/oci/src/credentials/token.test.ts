import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { test } from "node:test";
import { Failure } from "@exclave/core";
import { digestOf } from "../content/digest.ts";
import { mintToken, verifyToken } from "./token.ts";

const ours = generateKeyPairSync("ed25519");
const theirs = generateKeyPairSync("ed25519");
const NOW = 1_800_000_000_000;
const MINT = {
  privateKey: ours.privateKey,
  issuer: "exclave",
  audience: "registry",
  subject: "acme",
  access: [{ type: "repository", name: "apps/crm/api", actions: ["pull"] }],
  digests: [digestOf("a")],
  ttlMs: 60_000,
  now: NOW,
  jti: "t1",
} as const;
const TRUST = { publicKeys: [ours.publicKey], issuer: "exclave", audience: "registry", now: NOW };

test("a token says what it was minted with", async () => {
  const claims = await verifyToken(await mintToken({ ...MINT }), TRUST);

  assert.equal(claims.sub, "acme");
  assert.equal(claims.jti, "t1");
  assert.deepEqual(claims.access, MINT.access);
  assert.deepEqual(claims.digests, MINT.digests);
});

test("keys may be PEM or JWK", async () => {
  const privateKey = ours.privateKey.export({ type: "pkcs8", format: "pem" }) as string;
  const pem = ours.publicKey.export({ type: "spki", format: "pem" }) as string;
  const jwk = ours.publicKey.export({ format: "jwk" }) as { kty: string };
  const token = await mintToken({ ...MINT, privateKey });

  for (const key of [pem, jwk]) {
    assert.equal(
      (await verifyToken(token, { ...TRUST, publicKeys: [theirs.publicKey, key] })).jti,
      "t1",
    );
  }
});

test("a token of another key, issuer, audience or time is refused", async () => {
  const cases = [
    { ...MINT, privateKey: theirs.privateKey },
    { ...MINT, issuer: "someone" },
    { ...MINT, audience: "elsewhere" },
    { ...MINT, now: NOW - 61_000 },
    { ...MINT, now: NOW + 120_000 },
  ];
  for (const mint of cases) {
    await assert.rejects(verifyToken(await mintToken(mint), TRUST), isUnauthenticated);
  }
});

test("a token that was altered, or signed with nothing, is refused", async () => {
  const [head = "", body = "", signature = ""] = (await mintToken(MINT)).split(".");
  const claims = JSON.parse(Buffer.from(body, "base64url").toString("utf8"));
  claims.access[0].actions.push("push");
  const altered = Buffer.from(JSON.stringify(claims)).toString("base64url");
  const none = Buffer.from(JSON.stringify({ alg: "none" })).toString("base64url");

  for (const token of [`${head}.${altered}.${signature}`, `${none}.${body}.`, "nonsense", ""]) {
    await assert.rejects(verifyToken(token, TRUST), isUnauthenticated);
  }
});

function isUnauthenticated(reason: unknown): boolean {
  return reason instanceof Failure && reason.code === "unauthenticated";
}
