import assert from "node:assert/strict";
import { test } from "node:test";
import { clockAlarm } from "./agent-clock-alarm.ts";

const NOW = Date.UTC(2030, 0, 1);

test("a clock that is off by more than five minutes is said in words, in which direction too", () => {
  assert.equal(clockAlarm(NOW + 300_000, NOW), undefined);
  assert.equal(clockAlarm(NOW - 300_000, NOW), undefined);
  assert.match(clockAlarm(NOW + 360_000, NOW)?.because ?? "", /is 6 minutes ahead of this/);
  assert.match(clockAlarm(NOW - 5 * 3_600_000, NOW)?.because ?? "", /is 5 hours behind this/);
  assert.match(clockAlarm(0, NOW)?.because ?? "", /is \d+ days behind this server's/);
});
