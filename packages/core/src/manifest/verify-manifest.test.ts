import assert from "node:assert/strict";
import { createPublicKey, generateKeyPairSync, type KeyObject, sign, verify } from "node:crypto";
import { describe, test } from "node:test";
import { canonicalBytes } from "../encoding/canonical.ts";
import { digestOf } from "../encoding/sha256.ts";
import { Audience, type Digest, Instant, jobName } from "../ids.ts";
import { MANIFEST_BYTES_MAX } from "../limits.ts";
import { SandboxRules } from "../sandbox/sandbox-rules.ts";
import {
  ArtifactRef,
  DEADLINE_MS_MAX,
  type Envelope,
  MANIFEST_PAYLOAD_TYPE,
  Manifest,
  manifestBytes,
} from "./manifest.ts";
import {
  type JudgeInput,
  judgeEnvelope,
  type RefusalCode,
  signEnvelope,
} from "./verify-manifest.ts";

const director = generateKeyPairSync("ed25519");
const stranger = generateKeyPairSync("ed25519");
const now = Instant.parse(1_000_000);

describe("an agent judging a manifest", () => {
  test("accepts one that is signed, meant for it, fresh and new, and gets the signed bytes", () => {
    const judgement = judge();

    assert.equal(judgement.kind, "ok");
    assert.deepEqual(judgement.kind === "ok" && judgement.manifest, manifest());
    assert.deepEqual(judgement.kind === "ok" && judgement.payload, manifestBytes(manifest()));
  });

  test("accepts the longest deadline a job may have", () => {
    assert.equal(judge({ envelope: signed({ deadlineMs: DEADLINE_MS_MAX }) }).kind, "ok");
  });

  test("accepts a second attempt of a job it knows", () => {
    const seenAttempts = new Set([jobName(manifest().id, 1)]);

    assert.equal(judge({ envelope: signed({ attempt: 2 }), seenAttempts }).kind, "ok");
  });

  test("accepts within the clock skew on either side", () => {
    assert.equal(judge({ now: Instant.parse(manifest().notBefore - 500) }).kind, "ok");
    assert.equal(judge({ now: Instant.parse(manifest().notAfter + 500) }).kind, "ok");
  });

  test("accepts when one of several signatures is by a key it trusts", () => {
    const envelope = signed();
    const foreign = { keyid: "stranger", sig: "AAAA" };

    assert.equal(
      judge({ envelope: { ...envelope, signatures: [foreign, ...envelope.signatures] } }).kind,
      "ok",
    );
  });

  test("refuses an exec, however well signed, where the sandbox does not allow it", () => {
    const [step] = manifest().steps;
    const envelope = signed({
      operation: "exec",
      steps: [{ ...step, operation: "exec", effect: "at-most-once" } as Manifest["steps"][number]],
    });

    const refused = judge({ envelope, sandboxRules: SandboxRules.parse({}) });
    const allowed = judge({
      envelope,
      sandboxRules: SandboxRules.parse({ debug: { exec: true } }),
    });

    assert.equal(refused.kind === "refused" && refused.code, "policy");
    assert.equal(allowed.kind, "ok");
  });

  const altered = { ...manifest(), requestedBy: "somebody else" };
  const LIES: Record<string, [Partial<JudgeInput>, RefusalCode, RegExp]> = {
    "a deadline further away than any job may have": [
      { envelope: signed({ deadlineMs: DEADLINE_MS_MAX + 1 }) },
      "invalid",
      /8 days away, and a job may have 7 at most/,
    ],
    "something that is no envelope": [
      { envelope: { payload: 7 } },
      "invalid",
      /not a signed envelope/,
    ],
    "an envelope without signatures": [
      { envelope: { ...signed(), signatures: [] } },
      "invalid",
      /not a signed envelope/,
    ],
    "a step of another operation than the manifest": [
      { envelope: signed({ operation: "status" }) },
      "invalid",
      /the manifest says status and its step says apply/,
    ],
    "a payload over the limit": [
      { envelope: signed({ because: "x".repeat(MANIFEST_BYTES_MAX) }) },
      "invalid",
      /over the limit/,
    ],
    "a payload of another type": [
      { envelope: signEnvelope("application/other", manifestBytes(manifest()), signer()) },
      "invalid",
      /application\/other/,
    ],
    "a type that was changed after signing": [
      {
        envelope: {
          ...signEnvelope("application/other", manifestBytes(manifest()), signer()),
          payloadType: MANIFEST_PAYLOAD_TYPE,
        },
      },
      "signature",
      /no key this agent trusts/,
    ],
    "a payload changed after signing": [
      { envelope: { ...signed(), payload: base64(canonicalBytes(altered)) } },
      "signature",
      /no key this agent trusts/,
    ],
    "a forged signature": [
      {
        envelope: {
          ...signed(),
          signatures: [{ keyid: "director", sig: base64(new Uint8Array(64)) }],
        },
      },
      "signature",
      /no key this agent trusts/,
    ],
    "a signature by a stranger": [
      { envelope: signed({}, signer("stranger", stranger.privateKey)) },
      "signature",
      /no key this agent trusts/,
    ],
    "a signature by a stranger who uses the director's name": [
      { envelope: signed({}, signer("director", stranger.privateKey)) },
      "signature",
      /no key this agent trusts/,
    ],
    "a signed payload that is not JSON": [
      { envelope: signedBytes(new TextEncoder().encode("{")) },
      "invalid",
      /not a manifest/,
    ],
    "a signed payload that is not UTF-8": [
      { envelope: signedBytes(Uint8Array.of(0x22, 0xff, 0x22)) },
      "invalid",
      /not a manifest/,
    ],
    "a signed payload that is not a manifest": [
      { envelope: signedBytes(canonicalBytes({ ...manifest(), steps: [] })) },
      "invalid",
      /not a manifest/,
    ],
    "a manifest for a name, which another install may have had": [
      { envelope: signedBytes(canonicalBytes({ ...manifest(), audience: "acme" })) },
      "invalid",
      /not a manifest/,
    ],
    "a manifest for another install": [
      { envelope: signed({ audience: Audience.parse("iglobexaaaaaaaaaa") }) },
      "wrong_install",
      /meant for iglobexa+, and this is iacmea+/,
    ],
    "a manifest from the future": [
      { now: Instant.parse(manifest().notBefore - 1_001) },
      "expired",
      /not valid before 1970-01-01T00:15:00.000Z/,
    ],
    "a manifest of the past": [
      { now: Instant.parse(manifest().notAfter + 1_001) },
      "expired",
      /valid until 1970-01-01T00:18:20.000Z/,
    ],
    "an attempt it accepted before, under a new number": [
      { envelope: signed({ issueNo: 99 }), seenAttempts: new Set([jobName(manifest().id, 1)]) },
      "replayed",
      /attempt 1 of j/,
    ],
    "the number it accepted last": [{ lastIssueNo: 5 }, "replayed", /number 5 is not above 5/],
    "an older number": [{ lastIssueNo: 6 }, "replayed", /number 5 is not above 6/],
    "inputs that are not the ones named by digest": [
      { envelope: signed({ inputs: { domain: "evil.example" } }) },
      "invalid",
      /inputs are not the ones/,
    ],
  };
  for (const [lie, [input, code, because]] of Object.entries(LIES)) {
    test(`refuses ${lie}`, () => {
      const judgement = judge(input);

      assert.equal(judgement.kind, "refused");
      assert.equal(judgement.kind === "refused" && judgement.code, code);
      assert.match(judgement.kind === "refused" ? judgement.because : "", because);
    });
  }
});

function judge(input: Partial<JudgeInput> = {}) {
  return judgeEnvelope({
    envelope: signed(),
    keys: [{ keyid: "director", spki: spki(director.publicKey), scheme: "ed25519" }],
    threshold: 1,
    verify: (key, bytes, signature) =>
      verify(
        null,
        bytes,
        createPublicKey({ key: Buffer.from(key, "base64"), format: "der", type: "spki" }),
        signature,
      ),
    audience: "iacmeaaaaaaaaaaaa",
    now,
    clockSkewMs: 1_000,
    lastIssueNo: 4,
    seenAttempts: new Set(),
    ...input,
  });
}

function signed(changes: Partial<Manifest> = {}, by = signer()): Envelope {
  return signEnvelope(MANIFEST_PAYLOAD_TYPE, manifestBytes({ ...manifest(), ...changes }), by);
}

function signedBytes(bytes: Uint8Array): Envelope {
  return signEnvelope(MANIFEST_PAYLOAD_TYPE, bytes, signer());
}

function signer(keyid = "director", key: KeyObject = director.privateKey) {
  return { keyid, sign: (bytes: Uint8Array) => sign(null, bytes, key) };
}

function spki(key: KeyObject): string {
  return key.export({ format: "der", type: "spki" }).toString("base64");
}

function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("base64");
}

function manifest(): Manifest {
  const inputs = { domain: "crm.acme.example" };
  const plugin = ArtifactRef.parse({
    repository: "exclave/plugins/command",
    digest: `sha256:${"a".repeat(64)}` as Digest,
  });
  return Manifest.parse({
    version: 1,
    id: "jabcdefghijklmnop",
    attempt: 1,
    audience: "iacmeaaaaaaaaaaaa",
    issueNo: 5,
    operation: "apply",
    steps: [{ operation: "apply", plugin, component: "api", config: {}, effect: "idempotent" }],
    inputs,
    inputsDigest: digestOf(inputs),
    notBefore: now - 100_000,
    notAfter: now + 100_000,
    deadlineMs: 60_000,
    requestedBy: "ada",
    because: "first deploy",
  });
}
