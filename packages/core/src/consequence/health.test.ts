import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Instant } from "../ids.ts";
import { healthNow, NO_HEALTH, newsMs, recordHealth } from "./health.ts";

const at = (ms: number) => Instant.parse(1_000_000_000 + ms);
const EVERY_MS = 60_000;
const SAID = { health: "healthy", because: "answers", drift: null, source: "agent" } as const;
const healthy = recordHealth(NO_HEALTH, { ...SAID, at: at(0) });
const online = { status: "online", since: at(0) } as const;

describe("health", () => {
  test("is the last word while somebody looks, and unknown, with since when, once nobody does", () => {
    const watch = { agent: online, everyMs: EVERY_MS };
    const end = newsMs(EVERY_MS);

    const fresh = healthNow(healthy, watch, at(end));
    const stale = healthNow(healthy, watch, at(end + 1));
    const looked = healthNow(healthy, { ...watch, lookedAt: at(end) }, at(end + 1));

    assert.deepEqual([fresh.health, looked.health], ["healthy", "healthy"]);
    assert.equal(stale.health, "unknown");
    assert.equal(stale.since, at(0));
    assert.match(stale.because, /nobody has looked at it since .*; it was healthy before/);
    assert.deepEqual([looked.at, looked.source], [at(end), "agent"]);
  });

  test("is unknown while the agent is away, whatever it said last", () => {
    const agent = { status: "offline", since: at(5) } as const;

    const now = healthNow(healthy, { agent, everyMs: EVERY_MS, lookedAt: at(4) }, at(6));

    assert.deepEqual([now.health, now.since, now.at], ["unknown", at(5), at(4)]);
    assert.match(now.because, /the agent is offline since/);
  });

  test("an agent that has just connected gets the time to look", () => {
    const agent = { status: "online", since: at(10_000_000) } as const;
    const watch = { agent, everyMs: EVERY_MS };

    assert.equal(healthNow(healthy, watch, at(10_000_001)).health, "healthy");
    assert.equal(healthNow(healthy, watch, at(10_000_001 + newsMs(EVERY_MS))).health, "unknown");
  });

  test("is not taken for news because a wrong clock wrote down a time that lies ahead", () => {
    const ahead = recordHealth(NO_HEALTH, { ...SAID, at: at(1e9) });
    const watch = { agent: online, everyMs: EVERY_MS, lookedAt: at(1e9) };

    assert.equal(healthNow(ahead, watch, at(newsMs(EVERY_MS))).health, "healthy");
    assert.equal(healthNow(ahead, watch, at(newsMs(EVERY_MS) + 1)).health, "unknown");
  });

  test("of what has no status is what was said, however long ago", () => {
    assert.equal(healthNow(healthy, { agent: online }, at(1e9)).health, "healthy");
  });

  test("keeps since when it is so, for drift too", () => {
    const drift = { found: true, summary: "1 changed" };
    const say = (row: typeof healthy, ms: number, found: boolean) =>
      recordHealth(row, {
        health: "degraded",
        because: "",
        drift: found ? drift : null,
        source: "agent",
        at: at(ms),
      });

    const first = say(healthy, 5, true);
    const second = say(first, 9, true);

    assert.deepEqual(
      [second.healthSince, second.driftSince, second.healthAt],
      [at(5), at(5), at(9)],
    );
    assert.equal(say(second, 10, false).driftSince, null);
  });
});
