import assert from "node:assert/strict";
import { test } from "node:test";
import { Instant } from "../ids.ts";
import { mayBeHeard } from "./set-back.ts";

const [early, started, late] = [1_000, 2_000, 3_000].map((at) => Instant.parse(at)) as [
  Instant,
  Instant,
  Instant,
];

test("a job queued before the server was started may be heard of until its agent is back", () => {
  const facts = (queuedAt: Instant, agentSeenAt?: Instant) =>
    mayBeHeard({ queuedAt, agentSeenAt, serverStartedAt: started });

  assert.equal(facts(early, early), true);
  assert.equal(facts(early), true);
  assert.equal(facts(early, late), false);
  assert.equal(facts(late, early), false);
  assert.equal(facts(started), false);
});
