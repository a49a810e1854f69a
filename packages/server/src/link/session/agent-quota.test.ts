import assert from "node:assert/strict";
import { test } from "node:test";
import { createAgentQuota, createAgentQuotas } from "./agent-quota.ts";

const RATE = { burst: 3, perSecond: 2 };
const quotaOf = () =>
  createAgentQuota({ session: RATE, frame: RATE, event: RATE, grant: RATE, health: RATE });
test("so many at once are there, then so many a second, and never more than at once", () => {
  const quota = quotaOf();

  const first = [0, 0, 0, 0].map((now) => quota.waitMs("event", now));
  const later = [500, 500, 60_000, 60_000, 60_000, 60_000].map((now) => quota.waitMs("event", now));

  assert.deepEqual(first, [0, 0, 0, 500]);
  assert.deepEqual(later, [0, 500, 0, 0, 0, 500]);
});

test("a clock that goes back gives nothing and takes nothing", () => {
  const quota = quotaOf();
  for (const now of [1_000, 1_000, 1_000]) quota.waitMs("event", now);

  assert.ok(quota.waitMs("event", 0) > 0);
  assert.equal(quota.waitMs("event", 500), 0);
});

test("an agent's quota outlives its connections, and there are only so many quotas", () => {
  const quotas = createAgentQuotas();
  const first = quotas.of("first");
  for (let n = 0; n < 20_000; n++) quotas.of(`agent-${n}`);

  assert.equal(quotas.of("agent-1"), quotas.of("agent-1"));
  assert.notEqual(quotas.of("first"), first);
});
