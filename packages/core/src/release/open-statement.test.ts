import assert from "node:assert/strict";
import { test } from "node:test";
import { toBase64 } from "../encoding/base64.ts";
import { canonicalBytes } from "../encoding/canonical.ts";
import { digestOf, sha256Hex } from "../encoding/sha256.ts";
import { preAuthEncoding } from "../manifest/manifest.ts";
import { type OpenedStatement, openStatement, STATEMENT_BYTES_MAX } from "./open-statement.ts";
import { IN_TOTO_PAYLOAD_TYPE, statementBytes } from "./release-statement.ts";
import { statement } from "./released.testing.ts";

const RELEASE = statement(3);
const KEYS = ["one", "two", "three"].map((name) => ({
  keyid: `${name}-id`,
  spki: name,
  scheme: "ed25519" as const,
}));

/** Signatures of a world without numbers: whoever knows the key's name can make one. */
function sign(key: string, bytes: Uint8Array): string {
  return toBase64(new TextEncoder().encode(`${key}:${sha256Hex(bytes)}`));
}
function verify(spki: string, bytes: Uint8Array, signature: Uint8Array): boolean {
  return toBase64(signature) === sign(spki, bytes);
}

function sealed(payload = statementBytes(RELEASE), by: readonly string[] = ["one"]) {
  const signed = preAuthEncoding(IN_TOTO_PAYLOAD_TYPE, payload);
  return {
    payloadType: IN_TOTO_PAYLOAD_TYPE,
    payload: toBase64(payload),
    signatures: by.map((key) => ({ sig: sign(key, signed) })),
  };
}

function open(envelope: unknown, threshold = 1, index = RELEASE.index.digest): OpenedStatement {
  return openStatement({ envelope, index, role: { keys: KEYS, threshold }, verify });
}

function assertRefused(opened: OpenedStatement, because: RegExp): void {
  assert.equal(opened.kind, "refused");
  if (opened.kind === "refused") assert.match(opened.because, because);
}

test("a statement that a release key signed is read as it was written", () => {
  const opened = open(sealed());

  assert.deepEqual(opened.kind === "ok" && opened.statement, RELEASE);
});

test("it takes as many distinct keys as the threshold says", () => {
  assertRefused(open(sealed(undefined, ["one"]), 2), /enough keys/);
  assertRefused(open(sealed(undefined, ["one", "one"]), 2), /enough keys/);
  assertRefused(open(sealed(undefined, ["one", "stranger"]), 2), /enough keys/);
  assert.equal(open(sealed(undefined, ["one", "three"]), 2).kind, "ok");
  assertRefused(open(sealed(), 0), /enough keys/);
});

test("signatures that do not count are not kept", () => {
  const opened = open(sealed(undefined, ["stranger", "two"]));

  const kept = opened.kind === "ok" ? opened.envelope.signatures : [];
  assert.deepEqual(kept, sealed(undefined, ["two"]).signatures);
});

test("bytes that changed after signing are refused", () => {
  const envelope = { ...sealed(), payload: toBase64(statementBytes(statement(4))) };

  assertRefused(open(envelope), /enough keys/);
});

test("a statement of another release, or of two, is refused", () => {
  assertRefused(open(sealed(), 1, digestOf("another")), /another release/);
  const inToto = JSON.parse(new TextDecoder().decode(statementBytes(RELEASE)));
  const two = { ...inToto, subject: [...inToto.subject, ...inToto.subject] };
  assertRefused(open(sealed(canonicalBytes(two))), /another release/);
  const subject = [{ digest: { ...inToto.subject[0].digest, sha512: "x" } }];
  assertRefused(open(sealed(canonicalBytes({ ...inToto, subject }))), /another release/);
  const predicate = { ...RELEASE, index: { ...RELEASE.index, digest: digestOf("another") } };
  assertRefused(open(sealed(canonicalBytes({ ...inToto, predicate }))), /contradicts itself/);
});

test("a signature of another kind by the same key is no statement", () => {
  const inToto = JSON.parse(new TextDecoder().decode(statementBytes(RELEASE)));
  const cosign = { ...inToto, predicateType: "https://sigstore.dev/cosign/sign/v1" };

  assertRefused(open(sealed(canonicalBytes(cosign))), /no release statement/);
  assertRefused(open(sealed(new TextEncoder().encode("hello"))), /no release statement/);
  assertRefused(open({ ...sealed(), payloadType: "text/plain" }), /not a signed statement/);
  assertRefused(open(undefined), /not a signed statement/);
});

test("a statement over the limit is refused before its signature is looked at", () => {
  const long = sealed(new Uint8Array(STATEMENT_BYTES_MAX + 3));

  assertRefused(open(long), /over the limit/);
});
