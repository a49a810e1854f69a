import assert from "node:assert/strict";
import { test } from "node:test";
import { Failure, type FailureCode } from "@exclave/core";
import { hintFor } from "./oci-hints.ts";

const facts = { credentialFiles: ["/home/me/auth.json", "/x.json"], temporaryDirectory: "/tmp" };

function failure(code: FailureCode, { cause = "", details = {} } = {}) {
  return new Failure(code, "x", { cause: Object.assign(new Error("x"), { code: cause }), details });
}

for (const [what, reason, hint] of [
  [
    "an unknown issuer",
    failure("unavailable", { cause: "SELF_SIGNED_CERT_IN_CHAIN" }),
    /--ca FILE/,
  ],
  ["its own issuer", failure("unavailable", { cause: "DEPTH_ZERO_SELF_SIGNED_CERT" }), /--ca FILE/],
  [
    "a missing issuer",
    failure("unavailable", { cause: "UNABLE_TO_VERIFY_LEAF_SIGNATURE" }),
    /--ca FILE/,
  ],
  ["TLS to plain HTTP", failure("unavailable", { cause: "EPROTO" }), /http:\/\/.*--plain-http/],
  ["plain HTTP to TLS", failure("unavailable", { cause: "ECONNRESET" }), /https:\/\//],
  ["a server's 400", failure("invalid", { details: { status: 400 } }), /https:\/\//],
  ["no credentials", failure("unauthenticated"), /\/home\/me\/auth\.json, \/x\.json.*login/],
  ["too few rights", failure("forbidden"), /\/home\/me\/auth\.json/],
  ["a full disk", failure("disk_full"), /in \/tmp, .*TMPDIR/],
] as const) {
  test(`${what} comes with what to do about it`, () => {
    assert.match(hintFor(reason, facts) ?? "", hint);
  });
}

test("what nothing can be done about, or what says it itself, has no hint", () => {
  const refused = { status: 400, registryCode: "MANIFEST_INVALID" };
  for (const reason of [
    failure("unavailable", { cause: "ECONNREFUSED" }),
    failure("invalid", { details: refused }),
    failure("disk_full", { details: { status: 507 } }),
    failure("not_found"),
    failure("bug"),
  ]) {
    assert.equal(hintFor(reason, facts), undefined);
  }
});
