import assert from "node:assert/strict";
import { createPublicKey, verify } from "node:crypto";
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { decodeJoinString, encodeJoinString, type JoinRequest } from "@exclave/api";
import { AppId, Failure, type FailureCode, InstallName } from "@exclave/core";
import { ACME, GLOBEX } from "../testing/builders.ts";
import { signedTrust } from "../testing/signed-trust.ts";
import { temporaryDirectory } from "../testing/temporary-directory.ts";
import { keepIdentity, readIdentity } from "./identity.ts";
import { type JoinAnswer, joinServer } from "./join.ts";

const NOW = 1_800_000_000_000;
const { envelope: TRUST, digest: trustDigest } = signedTrust();
const SECRET = "a-secret-of-enough-letters";
const JOIN = encodeJoinString({
  url: "http://127.0.0.1:1",
  kind: "install",
  audience: ACME,
  install: InstallName.parse("acme"),
  app: AppId.parse("pcrmaaaaaaaaaaaaa"),
  secret: SECRET,
  trustDigest,
});
const ANSWER = {
  agent: "aaaaaaaaaaaaaaaaa",
  kind: "install",
  audience: ACME,
  install: "acme",
  app: "pcrmaaaaaaaaaaaaa",
  keyGeneration: 1,
  trust: TRUST,
};

async function nobody(): Promise<string> {
  throw new Error("no authority is asked for where none is pinned");
}

async function joinWith(answer: JoinAnswer, joinString = JOIN) {
  const sent: { url: string; body: JoinRequest }[] = [];
  const { identity, document } = await joinServer({
    joinString,
    kind: "install",
    now: NOW,
    findCa: nobody,
    post: async (url, body) => {
      sent.push({ url, body });
      return answer;
    },
  });
  return { identity, document, sent };
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

test("pins the trust document that the join string names, and says which that is", async () => {
  const { document, sent } = await joinWith({ status: 200, body: ANSWER });

  assert.equal(document.version, 1);
  assert.equal(sent[0]?.body.trustDigest, trustDigest);
});

test("does not trust a server whose trust document is not the one it was told of", async () => {
  const other = signedTrust().envelope;
  const unsigned = { ...TRUST, signatures: other.signatures };

  await failsWith("signature", joinWith({ status: 200, body: { ...ANSWER, trust: other } }));
  await failsWith("signature", joinWith({ status: 200, body: { ...ANSWER, trust: unsigned } }));
});

test("does not become another install's agent", async () => {
  const body = { ...ANSWER, audience: GLOBEX };

  await failsWith("wrong_install", joinWith({ status: 200, body }));
  const another = { ...ANSWER, app: "potheraaaaaaaaaaa" };
  await failsWith("wrong_install", joinWith({ status: 200, body: another }));
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
    trustDigest,
  });
  const reason = await failsWith("invalid", joinWith({ status: 200, body: ANSWER }, build));
  assert.match(reason.message, /build agent/);
});

test("sends its secret to no host in the clear, unless that was asked for", async () => {
  const away = encodeJoinString({ ...decodeJoinString(JOIN)!, url: "http://server.example.org" });
  const sent: string[] = [];
  const post = async (url: string) => {
    sent.push(url);
    return { status: 200, body: ANSWER };
  };

  const reason = await failsWith(
    "forbidden",
    joinServer({ joinString: away, kind: "install", now: NOW, findCa: nobody, post }),
  );

  assert.match(reason.message, /--insecure-http/);
  assert.deepEqual(sent, []);
  const allowed = { joinString: away, insecureHttp: true } as const;
  await joinServer({ ...allowed, kind: "install", now: NOW, findCa: nobody, post });
  assert.equal(sent.length, 1);
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
