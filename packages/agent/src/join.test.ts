import assert from "node:assert/strict";
import { createPublicKey, verify } from "node:crypto";
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { encodeJoinString, type JoinRequest, type ServerKeys } from "@exclave/api";
import { canonicalBytes, digestOf, Failure, type FailureCode } from "@exclave/core";
import { keepIdentity, readIdentity } from "./identity.ts";
import { type JoinAnswer, joinServer } from "./join.ts";
import { createDirector } from "./testing/builders.ts";
import { temporaryDirectory } from "./testing/temporary-directory.ts";

const director = createDirector();
const KEYS: ServerKeys = { director, release: createDirector("release") };
const PLAIN_KEYS: ServerKeys = {
  director: { keyid: KEYS.director.keyid, spki: KEYS.director.spki },
  release: { keyid: KEYS.release.keyid, spki: KEYS.release.spki },
};
const SECRET = "a-secret-of-enough-letters";
const JOIN = encodeJoinString({
  url: "http://127.0.0.1:1",
  kind: "install",
  audience: "acme",
  secret: SECRET,
  keysDigest: digestOf(PLAIN_KEYS),
});
const ANSWER = {
  agent: "aaaaaaaaaaaaaaaaa",
  kind: "install",
  audience: "acme",
  keyGeneration: 1,
  keys: PLAIN_KEYS,
};

async function joinWith(answer: JoinAnswer, joinString = JOIN) {
  const sent: { url: string; body: JoinRequest }[] = [];
  const identity = await joinServer({
    joinString,
    kind: "install",
    post: async (url, body) => {
      sent.push({ url, body });
      return answer;
    },
  });
  return { identity, sent };
}

test("sends its own public keys and proves that it holds them", async () => {
  const { identity, sent } = await joinWith({ status: 200, body: ANSWER });

  const [request] = sent;
  assert.equal(request?.url, "http://127.0.0.1:1/v1/agents/join");
  const { identityKey, proof, secret } = request?.body ?? ({} as never);
  const key = createPublicKey({
    key: Buffer.from(identityKey, "base64"),
    format: "der",
    type: "spki",
  });
  assert.ok(verify(null, Buffer.from(secret), key, Buffer.from(proof, "base64")));
  assert.equal(identity.agent, ANSWER.agent);
  assert.ok(!JSON.stringify(identity).includes(SECRET), "the secret is not kept");
  assert.ok(!JSON.stringify(sent).includes("PRIVATE"), "no private key leaves");
});

test("does not trust a server whose keys are not the ones it was told", async () => {
  const other = { ...PLAIN_KEYS, director: { keyid: "director", spki: createDirector().spki } };
  assert.notDeepEqual(canonicalBytes(other), canonicalBytes(PLAIN_KEYS));

  await failsWith("signature", joinWith({ status: 200, body: { ...ANSWER, keys: other } }));
});

test("does not become another install's agent", async () => {
  const body = { ...ANSWER, audience: "globex" };

  await failsWith("wrong_install", joinWith({ status: 200, body }));
});

test("says what to do about a join string that is used up", async () => {
  const body = { title: "unauthenticated", detail: "this join token was used" };

  const reason = await failsWith("unauthenticated", joinWith({ status: 401, body }));

  assert.match(reason.message, /this join token was used .*make a new one/);
});

test("refuses what is no join string, or one for another kind of agent", async () => {
  await failsWith("invalid", joinWith({ status: 200, body: ANSWER }, "nonsense"));
  const build = encodeJoinString({
    url: "http://127.0.0.1:1",
    kind: "build",
    audience: "build",
    secret: SECRET,
    keysDigest: digestOf(PLAIN_KEYS),
  });
  const reason = await failsWith("invalid", joinWith({ status: 200, body: ANSWER }, build));
  assert.match(reason.message, /build agent/);
});

test("an identity is kept whole, for its owner alone", async (t) => {
  const path = join(await temporaryDirectory(t), "agent", "identity.json");
  const { identity } = await joinWith({ status: 200, body: ANSWER });

  await keepIdentity(path, identity);

  assert.deepEqual(await readIdentity(path), identity);
  assert.equal((await stat(path)).mode & 0o777, 0o600);
  assert.equal(await readIdentity(join(path, "..", "none.json")), undefined);
});

async function failsWith(code: FailureCode, promise: Promise<unknown>): Promise<Failure> {
  const reason = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  assert.ok(reason instanceof Failure, "it fails");
  assert.equal(reason.code, code);
  return reason;
}
