import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { digestOfBytes } from "../encoding/sha256.ts";
import { Instant } from "../ids.ts";
import type { Envelope } from "../manifest/manifest.ts";
import { firstTrust, type NextTrust, nextTrust, type TrustJudgement } from "./next-trust.ts";
import {
  sealedBy,
  sealedTrust,
  testKey,
  testKeys,
  trustOf,
  verifyForTest,
} from "./trust.testing.ts";
import { keysOfRole, type TrustDocument, trustBytes } from "./trust-document.ts";

const now = Instant.parse(1_000_000);
const keys = testKeys();
const [root] = keys.root as [ReturnType<typeof testKey>];
const [director] = keys.director as [ReturnType<typeof testKey>];
const newRoot = testKey();
const stranger = testKey();
const current = trustOf(keys);

/** Version 2 of the same, with these changes. */
const second = (changes: Partial<TrustDocument> = {}) => trustOf(keys, { version: 2, ...changes });

function next(envelope: unknown, changes: Partial<NextTrust> = {}): TrustJudgement {
  return nextTrust({ current, envelope, now, verify: verifyForTest, ...changes });
}

const verdict = (judged: TrustJudgement) =>
  judged.kind === "ok" ? `ok ${judged.document.version}` : `${judged.code}: ${judged.because}`;

describe("the next trust document", () => {
  test("is taken when the root signed it, with whatever keys it names", () => {
    const replaced = trustOf({ ...keys, director: [testKey()] }, { version: 2 });

    assert.equal(verdict(next(sealedTrust(replaced, root))), "ok 2");
  });

  test("replaces the root when the old and the new one signed it", () => {
    const replaced = trustOf({ ...keys, root: [newRoot] }, { version: 2 });

    assert.equal(verdict(next(sealedTrust(replaced, root, newRoot))), "ok 2");
    assert.match(verdict(next(sealedTrust(replaced, root))), /^signature: its own root/);
    assert.match(
      verdict(next(sealedTrust(replaced, newRoot))),
      /^signature: the root of version 1/,
    );
  });

  test("wants the threshold of the old and of the new root, by different keys", () => {
    const roots = [testKey(), testKey(), testKey()] as const;
    const wide = { ...keys, root: roots };
    const two = { keyids: roots.map(({ keyid }) => keyid), threshold: 2 };
    const before = trustOf(wide);
    const held = { ...before, roles: { ...before.roles, root: two } };
    const after = { ...held, version: 2 };
    const [a, b] = roots;

    const judge = (envelope: Envelope) => verdict(next(envelope, { current: held }));

    assert.equal(judge(sealedTrust(after, a, b)), "ok 2");
    assert.match(judge(sealedTrust(after, a)), /^signature: .*1 of the 2/);
    assert.match(judge(sealedTrust(after, a, a)), /^signature: .*1 of the 2/);
    assert.match(judge(sealedTrust(after, a, stranger)), /^signature: .*1 of the 2/);
    // From one key to two of three: the old threshold alone does not do.
    const narrow = { ...before, roles: { ...before.roles, root: { ...two, threshold: 1 } } };
    const widened = (envelope: Envelope) => verdict(next(envelope, { current: narrow }));
    assert.match(widened(sealedTrust(after, a)), /^signature: its own root/);
    assert.equal(widened(sealedTrust(after, a, b)), "ok 2");
  });

  test("may say more than this version understands", () => {
    const later = { ...second(), roles: { ...second().roles, witness: {} }, more: 1 };

    assert.equal(verdict(next(sealedTrust(later, root))), "ok 2");
  });

  test("is refused when it is older than the one that is held", () => {
    const held = { current: second({ version: 3 }) };

    assert.match(verdict(next(sealedTrust(second(), root), held)), /^replayed: version 2 is not/);
  });

  test("may have expired on the way to a later one, but not where it is published", () => {
    const expired = sealedTrust(second({ expiresAt: Instant.parse(now - 1) }), root);

    assert.equal(verdict(next(expired)), "ok 2");
    assert.match(verdict(next(expired, { mustBeValid: true })), /^expired/);
  });

  const { roles } = second();
  const withRole = (role: keyof TrustDocument["roles"], changes: object) =>
    second({ roles: { ...roles, [role]: { ...roles[role], ...changes } } });
  const withKey = (keyid: string, changes: object) => {
    const document = second();
    const key = document.keys[keyid];
    return { ...document, keys: { ...document.keys, [keyid]: { ...key, ...changes } } } as never;
  };
  const LIES: Record<string, [unknown, RegExp]> = {
    "signed by a stranger": [sealedTrust(second(), stranger), /^signature/],
    "signed by the director": [sealedTrust(second(), director), /^signature/],
    "signed under root's id by a stranger": [
      sealedTrust(second(), { ...stranger, keyid: root.keyid }),
      /^signature/,
    ],
    "the version that is held": [sealedTrust(current, root), /^replayed/],
    "a version that skips one": [sealedTrust(second({ version: 3 }), root), /does not follow 1/],
    "version 0": [sealedTrust(second({ version: 0 }), root), /not a trust document/],
    "of another payload type": [
      sealedBy(trustBytes(second()), [root], "application/vnd.exclave.manifest.v1+json"),
      /^invalid/,
    ],
    "no JSON": [sealedBy(new TextEncoder().encode("{"), [root]), /not a trust document/],
    "a role without keys": [sealedTrust(withRole("director", { keyids: [] }), root), /^invalid/],
    "a role with a threshold of 0": [
      sealedTrust(withRole("director", { threshold: 0 }), root),
      /not a trust document/,
    ],
    "a threshold that no keys can meet": [
      sealedTrust(withRole("director", { threshold: 2 }), root),
      /asks for 2 signatures and has 1/,
    ],
    "a role that names an unknown key": [
      sealedTrust(withRole("director", { keyids: ["0".repeat(64)] }), root),
      /not in the document/,
    ],
    "a key named twice in a role": [
      sealedTrust(
        withRole("director", { keyids: [director.keyid, director.keyid], threshold: 2 }),
        root,
      ),
      /named twice/,
    ],
    "a key with two roles": [
      sealedTrust(withRole("checkpoint", { keyids: [director.keyid] }), root),
      /named twice/,
    ],
    "a key under an id that is not its own": [
      sealedTrust(withKey(director.keyid, { spki: stranger.key.spki }), root),
      /does not have that id/,
    ],
    "a key of an unknown scheme": [
      sealedTrust(withKey(director.keyid, { scheme: "none" }), root),
      /not a trust document/,
    ],
    "a root key with an end": [
      sealedTrust(withKey(root.keyid, { until: 5 }), root),
      /root keys have none/,
    ],
    "a role whose only key has an end": [
      sealedTrust(withKey(director.keyid, { until: now + 1 }), root),
      /has 0 lasting keys/,
    ],
    "no origins": [sealedTrust(second({ origins: [] }), root), /not a trust document/],
    "an origin that is an address": [
      sealedTrust(second({ origins: ["https://vendor.example/path"] }), root),
      /not a trust document/,
    ],
    "an origin with a user": [
      sealedTrust(second({ origins: ["https://a@vendor.example"] }), root),
      /not a trust document/,
    ],
    nothing: [undefined, /^invalid/],
  };
  for (const [lie, [envelope, because]] of Object.entries(LIES)) {
    test(`is refused when it is ${lie}`, () => {
      assert.match(verdict(next(envelope)), because);
    });
  }
});

describe("the first trust document", () => {
  const digest = digestOfBytes(trustBytes(current));
  const first = (envelope: unknown, pinned = digest) =>
    verdict(firstTrust({ envelope, digest: pinned, now, verify: verifyForTest }));

  test("is taken when it has the pinned digest and its own root signed it", () => {
    assert.equal(first(sealedTrust(current, root)), "ok 1");
  });

  test("is refused when it is another, or nobody signed it", () => {
    assert.match(first(sealedTrust(second(), root)), /^signature: .* join string/);
    assert.match(first(sealedTrust(current, stranger)), /^signature/);
    const strange = trustOf(keys, { origins: ["https://x.example", "https://x.example"] });
    const pinned = digestOfBytes(trustBytes(strange));
    assert.match(first(sealedTrust(strange, root), pinned), /listed twice/);
  });
});

test("a key with an end is a role's until then", () => {
  const old = testKey();
  const base = trustOf({ ...keys, director: [director, old] });
  const key = { ...old.key, until: Instant.parse(now + 10) };
  const document = { ...base, keys: { ...base.keys, [old.keyid]: key } };

  const ids = (at: number) =>
    keysOfRole(document, "director", Instant.parse(at)).keys.map(({ keyid }) => keyid);

  assert.deepEqual(ids(now), [director.keyid, old.keyid]);
  assert.deepEqual(ids(now + 11), [director.keyid]);
});
