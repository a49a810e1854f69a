import assert from "node:assert/strict";
import { generateKeyPairSync, sign } from "node:crypto";
import { test } from "node:test";
import { componentOf } from "./engine-token.ts";

const keys = generateKeyPairSync("ed25519");
const publicKey = keys.publicKey.export({ type: "spki", format: "pem" }).toString();
const NOW = 1_000_000_000;
const trust = { publicKey, issuer: "install", service: "engine", now: NOW };
const claims = {
  iss: "install",
  aud: "engine",
  sub: "web",
  nbf: NOW / 1_000,
  exp: NOW / 1_000 + 60,
};

function token(changes: object = {}, key = keys.privateKey): string {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const text = `${part({ alg: "EdDSA" })}.${part({ ...claims, ...changes })}`;
  return `Bearer ${text}.${sign(null, Buffer.from(text), key).toString("base64url")}`;
}

test("a token names the component it was signed for", () => {
  assert.equal(componentOf(token(), trust), "web");
});

test("a token of another key, install, service or time opens nothing", () => {
  const other = generateKeyPairSync("ed25519").privateKey;
  const [head = "", , signature = ""] = token().split(".");
  const body = Buffer.from(JSON.stringify({ ...claims, sub: "api" })).toString("base64url");

  for (const wrong of [
    token({}, other),
    token({ iss: "other" }),
    token({ aud: "exclave-registry" }),
    token({ exp: NOW / 1_000 }),
    token({ nbf: NOW / 1_000 + 1 }),
    token({ sub: "" }),
    `${head}.${body}.${signature}`,
    "Bearer x",
    undefined,
  ]) {
    assert.equal(componentOf(wrong, trust), undefined);
  }
});
