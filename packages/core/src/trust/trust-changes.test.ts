import assert from "node:assert/strict";
import { test } from "node:test";
import { Instant } from "../ids.ts";
import { moveOrigins, renewTrust, rotateTrust } from "./change-trust.ts";
import { testKey, testKeys, trustOf } from "./trust.testing.ts";
import { trustChanges } from "./trust-changes.ts";
import { TRUST_ROLES } from "./trust-document.ts";

const now = Instant.parse(1_000_000);
const current = trustOf(testKeys());

test("a rotation changes its own role and no other, and says which keys", () => {
  for (const role of TRUST_ROLES) {
    const { keyid, key } = testKey();
    for (const revoke of [false, true]) {
      const next = rotateTrust(current, { role, key: { keyid, ...key }, revoke, now });

      const changes = trustChanges(current, next);

      assert.deepEqual(changes.roles, [role]);
      assert.equal(changes.origins, false);
      assert.match(
        changes.sentences[0] ?? "",
        new RegExp(`^${role} gets key ${keyid.slice(0, 12)}`),
      );
      const isOut = changes.sentences.some((text) => text.includes("at once"));
      assert.equal(isOut, revoke || role === "root", `${role} ${revoke}`);
    }
  }
});

test("a renewal changes no role; a threshold, another key and an origin are changes", () => {
  assert.deepEqual(trustChanges(current, renewTrust(current, now)).roles, []);
  const moved = trustChanges(current, moveOrigins(current, ["https://x.example"], now));
  assert.equal(moved.origins, true);
  const { director } = current.roles;
  const eased = {
    ...current,
    roles: { ...current.roles, director: { ...director, threshold: 2 } },
  };
  assert.deepEqual(trustChanges(current, eased).roles, ["director"]);
});
