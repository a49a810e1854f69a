import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { LinkEffect, LiveLink } from "./link-state.ts";
import { advanceLink } from "./server-core.ts";

const HOUR_MS = 3_600_000;
const NOW = Date.UTC(2030, 0, 1);
const SETTINGS = { pingMs: 10_000, reconnectSpreadMs: 0, logCreditBytes: 1, frameBytes: 1 };

function live(changes: Partial<LiveLink> = {}): LiveLink {
  return {
    phase: "live",
    agent: "a",
    epoch: 1,
    upAcked: 0,
    downHead: 0,
    unacked: [],
    ping: { id: 0, heardAt: NOW, sentAt: NOW },
    resend: { at: NOW },
    settings: SETTINGS,
    certificate: { until: NOW + HOUR_MS, offerAt: NOW },
    ...changes,
  };
}

function tick(state: LiveLink, now: number): { state: LiveLink; effects: readonly LinkEffect[] } {
  const next = advanceLink(
    { ...state, ping: { ...state.ping, heardAt: now, sentAt: now } },
    { kind: "tick", now },
  );
  assert.equal(next.state.phase, "live");
  return { state: next.state, effects: next.effects };
}

describe("a live link's certificate", () => {
  test("is replaced when it is due: one that ends a day later is offered", () => {
    assert.deepEqual(tick(live(), NOW - 1).effects, []);

    const { effects } = tick(live(), NOW);

    assert.deepEqual(effects, [{ kind: "certify", until: NOW + 24 * HOUR_MS }]);
  });

  test("is offered again after a minute, until the agent says that it keeps that very one", () => {
    const offered = tick(live(), NOW).state;
    const until = offered.certificate?.offered ?? 0;
    const kept = (until: number) =>
      advanceLink(offered, { kind: "frame", frame: { type: "certificate_kept", until }, now: NOW });

    assert.deepEqual(tick(offered, NOW + 59_000).effects, []);
    assert.equal(tick(offered, NOW + 60_000).effects.length, 1);
    assert.deepEqual((kept(until + 1).state as LiveLink).certificate, offered.certificate);
    const rested = kept(until).state as LiveLink;
    assert.deepEqual(tick(rested, NOW + 13 * HOUR_MS).effects, []);
    assert.equal(tick(rested, NOW + 16 * HOUR_MS).effects.length, 1);
  });

  test("is none of a link without one", () => {
    const { certificate: _, ...plain } = live();

    assert.deepEqual(tick(plain, NOW + 100 * HOUR_MS).effects, []);
  });
});
