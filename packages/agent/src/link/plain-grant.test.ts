import assert from "node:assert/strict";
import { test } from "node:test";
import { ServerFrame } from "@exclave/api";
import { withoutPlainGrant } from "./plain-grant.ts";

function granted(registryUrl: string, sourceUrl?: string): ServerFrame {
  const grant = { registryUrl, credential: "c", expiresAt: 1_700_000_000_000, sourceUrl };
  return ServerFrame.parse({ type: "grant", job: "jaaaaaaaaaaaaaaaa", attempt: 1, grant });
}

test("a grant that would be used in the clear beyond this machine is a refusal", () => {
  const frames = [
    granted("http://registry.example.org"),
    granted("http://127.0.0.1:1", "http://registry.example.org/source"),
  ];
  for (const frame of frames) {
    const seen = withoutPlainGrant(frame, false);

    assert.ok(seen.type === "grant" && seen.grant === undefined);
    assert.match(seen.refused ?? "", /plain HTTP/);
    assert.equal(withoutPlainGrant(frame, true), frame);
  }
});

test("https and loopback pass", () => {
  for (const url of ["https://registry.example.org", "http://127.0.0.1:8420"]) {
    const frame = granted(url);
    assert.equal(withoutPlainGrant(frame, false), frame);
  }
});
