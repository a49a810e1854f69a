import assert from "node:assert/strict";
import { test } from "node:test";
import { Instant } from "../ids.ts";
import {
  moveOrigins,
  newTrust,
  ROTATION_GRACE_MS,
  renewTrust,
  rotateTrust,
} from "./change-trust.ts";
import { nextTrust } from "./next-trust.ts";
import {
  sealedTrust,
  type TestKey,
  testKey,
  testKeys,
  trustOf,
  verifyForTest,
} from "./trust.testing.ts";
import { keysOfRole, TRUST_ROLES, type TrustDocument, type TrustRole } from "./trust-document.ts";

const now = Instant.parse(1_000_000);
const keys = testKeys();
const current = trustOf(keys);
const trusted = ({ keyid, key }: TestKey) => ({ keyid, ...key });

function idsOf(document: TrustDocument, role: TrustRole, at: number = now): string[] {
  return keysOfRole(document, role, Instant.parse(at)).keys.map(({ keyid }) => keyid);
}
const old = (role: TrustRole) => keys[role].map(({ keyid }) => keyid);

function rotate(role: TrustRole, changes: { revoke?: boolean; from?: TrustDocument } = {}) {
  const made = testKey(role === "release" ? "ecdsa-p256" : "ed25519");
  const { revoke = false, from = current } = changes;
  const document = rotateTrust(from, { role, key: trusted(made), revoke, now });
  const envelope = sealedTrust(document, ...keys.root, made);
  const judged = nextTrust({ current: from, envelope, now, verify: verifyForTest });
  assert.equal(judged.kind, "ok", JSON.stringify(judged));
  return { document, made: made.keyid };
}

test("a replaced director or checkpoint key is accepted until the grace is over", () => {
  for (const role of ["director", "checkpoint"] as const) {
    const { document, made } = rotate(role);

    assert.deepEqual(idsOf(document, role), [made, ...old(role)]);
    assert.deepEqual(idsOf(document, role, now + ROTATION_GRACE_MS + 1), [made]);
  }
});

test("a replaced release key stays: what it signed stays released", () => {
  const { document, made } = rotate("release");

  assert.deepEqual(idsOf(document, "release", now + 10 * ROTATION_GRACE_MS), [
    made,
    ...old("release"),
  ]);
});

test("a replaced root key is out at once", () => {
  const { document, made } = rotate("root");

  assert.deepEqual(document.roles.root.keyids, [made]);
  assert.equal(document.keys[old("root")[0] ?? ""], undefined);
});

test("a revoked key of any role is out at once, with every older one", () => {
  for (const role of TRUST_ROLES) {
    const before = role === "root" ? current : rotate(role).document;
    const { document, made } = rotate(role, { revoke: true, from: before });

    assert.deepEqual(document.roles[role].keyids, [made], role);
    for (const keyid of old(role)) assert.equal(keyid in document.keys, false);
  }
});

test("with a threshold above 1 one key makes room for the new one, and the threshold stays", () => {
  const three = [testKey(), testKey(), testKey()];
  const base = trustOf({ ...keys, director: three });
  const [a, b, c] = three.map(({ keyid }) => keyid);
  const from = {
    ...base,
    roles: { ...base.roles, director: { ...base.roles.director, threshold: 2 } },
  };

  const replaced = rotate("director", { from });
  const revoked = rotate("director", { from, revoke: true });

  assert.deepEqual(idsOf(replaced.document, "director"), [replaced.made, a, b, c]);
  const later = now + ROTATION_GRACE_MS + 1;
  assert.deepEqual(idsOf(replaced.document, "director", later), [replaced.made, a, b]);
  assert.deepEqual(idsOf(revoked.document, "director"), [revoked.made, a, b]);
  assert.equal(revoked.document.roles.director.threshold, 2);
});

test("keys whose end has come leave the document with its next version", () => {
  const { document, made } = rotate("director");

  const later = Instant.parse(now + ROTATION_GRACE_MS + 1);

  assert.deepEqual(renewTrust(document, later).roles.director.keyids, [made]);
  assert.deepEqual(renewTrust(document, now).roles.director.keyids, [made, ...old("director")]);
});

test("a renewed document is the next version, with a later end and nothing else changed", () => {
  const renewed = renewTrust(current, now);

  assert.equal(renewed.version, 2);
  assert.ok(renewed.expiresAt > now);
  assert.deepEqual({ ...renewed, version: 1, expiresAt: current.expiresAt }, current);
  const origins = ["https://new.example"];
  assert.deepEqual(moveOrigins(current, origins, now).origins, origins);
});

test("the first document has one key a role", () => {
  const first = newTrust(
    {
      root: trusted(keys.root[0] ?? testKey()),
      release: trusted(keys.release[0] ?? testKey()),
      director: trusted(keys.director[0] ?? testKey()),
      checkpoint: trusted(keys.checkpoint[0] ?? testKey()),
    },
    { origins: ["https://vendor.example"], now },
  );

  assert.deepEqual({ ...first, expiresAt: current.expiresAt }, current);
});
