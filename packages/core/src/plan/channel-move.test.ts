import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { Instant } from "../ids.ts";
import { askedNow, movesChannel } from "./channel-move.ts";

test("a channel ends at what was asked for last, in whatever order releases become ready", () => {
  const clock = fc.array(fc.nat(3), { minLength: 1, maxLength: 8 });
  fc.assert(
    fc.property(clock, fc.infiniteStream(fc.nat(7)), (times, dice) => {
      const wishes: Instant[] = [];
      for (const time of times) wishes.push(askedNow(Instant.parse(time), wishes.at(-1)));
      const building = [...wishes];
      let channel: { askedAt: Instant } | undefined;

      while (building.length > 0) {
        const [ready] = building.splice(dice.next().value % building.length, 1);
        if (ready !== undefined && movesChannel(ready, channel)) channel = { askedAt: ready };
      }

      assert.equal(channel?.askedAt, wishes.at(-1));
    }),
  );
});
