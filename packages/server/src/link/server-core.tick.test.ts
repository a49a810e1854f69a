import assert from "node:assert/strict";
import { test } from "node:test";
import { RESEND_EVERY_MS } from "@exclave/api";
import type { LinkState, LiveLink } from "./link-state.ts";
import { advanceLink, isTickDue } from "./server-core.ts";

const PING_MS = 10_000;
const LIVE: LiveLink = {
  phase: "live",
  agent: "a",
  epoch: 1,
  upAcked: 0,
  downHead: 1,
  unacked: [{ row: 1, seq: 1, body: { type: "job_cancel", job: "j" } as never }],
  ping: { id: 0, heardAt: 0, sentAt: 0 },
  resend: { at: 0 },
  settings: { pingMs: PING_MS, reconnectSpreadMs: 200, logCreditBytes: 1, frameBytes: 1 },
};

const STATES: Readonly<Record<string, LinkState>> = {
  challenged: { phase: "challenged", nonce: "n" },
  closed: { phase: "closed" },
  "at rest": LIVE,
  "pinged and silent": { ...LIVE, ping: { id: 1, heardAt: 0, sentAt: PING_MS * 3 } },
  "asked to resend": { ...LIVE, resend: { at: 0, wantedFrom: 1 } },
  "with a certificate": { ...LIVE, certificate: { until: 90_000, offerAt: 5_000 } },
};
const TIMES = [
  0,
  RESEND_EVERY_MS - 1,
  RESEND_EVERY_MS,
  5_000,
  PING_MS - 1,
  PING_MS,
  PING_MS * 2.5 + 1,
];

for (const [name, state] of Object.entries(STATES)) {
  test(`a link that is ${name} is troubled by a tick only when there is something to do`, () => {
    const due = TIMES.map((now) => isTickDue(state, now));

    const isDoing = TIMES.map(
      (now) => advanceLink(state, { kind: "tick", now }).effects.length > 0,
    );
    assert.deepEqual(due, isDoing);
  });
}

test("an agent at rest is due when it is to be pinged, and not before", () => {
  assert.deepEqual([isTickDue(LIVE, PING_MS - 1), isTickDue(LIVE, PING_MS)], [false, true]);
});
