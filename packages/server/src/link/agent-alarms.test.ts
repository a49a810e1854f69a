import assert from "node:assert/strict";
import { test } from "node:test";
import { Instant } from "@exclave/core";
import { ALARMS_KEPT_MAX, keepAlarm } from "./agent-alarms.ts";

const raised = (code: string, because = code) => ({
  type: "alarm" as const,
  at: 1,
  code,
  because,
});

test("the newest alarm of a code counts, and the oldest of too many goes", () => {
  let kept = keepAlarm([], raised("image_changed", "first"), Instant.parse(1));
  kept = keepAlarm(kept, raised("clock_set_back"), Instant.parse(2));
  kept = keepAlarm(kept, raised("image_changed", "second"), Instant.parse(3));

  assert.deepEqual(
    kept.map(({ at, because }) => [at, because]),
    [
      [2, "clock_set_back"],
      [3, "second"],
    ],
  );
  for (let n = 0; n < 100; n++) kept = keepAlarm(kept, raised(`made up ${n}`), Instant.parse(4));
  assert.equal(kept.length, ALARMS_KEPT_MAX);
  assert.equal(kept.at(-1)?.code, "made up 99");
});
