// What a server can make an agent keep or do has an end, and every refusal is an event.

import assert from "node:assert/strict";
import { test } from "node:test";
import { FRAME_BYTES_MAX, readServerFrame } from "@exclave/api";
import { job } from "../testing/builders.ts";
import {
  agentWith,
  emptyJournal,
  kinds,
  nameOf,
  SUCCEEDED,
  sent,
  types,
} from "../testing/core-agent.ts";
import { EVENTS_KEPT_MAX, JOBS_HELD_MAX } from "./agent-limits.ts";

const unreadable = (body: unknown) => {
  const frame = readServerFrame(JSON.stringify({ type: "command", seq: 1, body }));
  assert.ok(frame?.type === "unreadable_command");
  return frame;
};

test("a command that cannot be read is refused by an event, and the next one is taken", () => {
  const agent = agentWith();
  agent.welcome();
  const { id } = job();

  const effects = agent.frame(unreadable({ type: "job_dance", job: id, attempt: 1 }));

  assert.deepEqual(types(agent.told()), ["job_rejected"]);
  assert.deepEqual(sent(effects)[0], { type: "ack", seq: 1 });
  assert.ok(!kinds(effects).includes("close"));
  assert.equal(agent.state.downAcked, 1);
});

test("a command that is over the frame's size is refused likewise, and one about nothing is an alarm", () => {
  const body = {
    type: "job_offer",
    job: job().id,
    attempt: 1,
    envelope: "x".repeat(FRAME_BYTES_MAX),
  };
  const agent = agentWith();
  agent.welcome();
  agent.frame(unreadable(body));
  const other = agentWith();
  other.welcome();
  other.frame(unreadable("?"));

  const [rejected] = agent.told();
  assert.ok(rejected?.type === "job_rejected");
  assert.match(rejected.because, /a frame at most/);
  assert.deepEqual(types(other.told()), ["alarm"]);
});

test("more jobs than an agent keeps are refused until some have ended", () => {
  const agent = agentWith({ rules: { jobsMax: 1 } });
  agent.welcome();
  for (let n = 0; n <= JOBS_HELD_MAX; n++) agent.offer(job(lettered(n + 1_000)));

  assert.equal(agent.state.jobs.size, JOBS_HELD_MAX);
  const last = agent.told().at(-1);
  assert.ok(last?.type === "job_rejected");
  assert.equal(last.code, "rate_limited");
});

test("a server that acknowledges nothing and goes on asking is not listened to", () => {
  const journal = emptyJournal();
  const body = { type: "alarm", at: 1, code: "x", because: "x" } as const;
  journal.commit(
    Array.from({ length: EVENTS_KEPT_MAX }, (_, n) => ({ kind: "event", seq: n + 1, body })),
  );
  const agent = agentWith({ journal });
  agent.welcome();

  const effects = agent.offer(job());

  assert.ok(kinds(effects).includes("close"));
  assert.equal(agent.state.jobs.size, 0);
  assert.equal(agent.state.downAcked, 0);
});

test("the status of a component is not looked up more often than makes sense", () => {
  const agent = agentWith();
  agent.welcome();
  const manifest = job("apply", { statusEveryMs: 1 });
  agent.run(manifest);
  agent.feed({ kind: "exited", name: nameOf(manifest), ended: SUCCEEDED });

  const [scheduled] = agent.state.schedule.values();
  assert.equal(scheduled?.entry.everyMs, 1_000);
});

/** A number that a job's id can hold: ids have no 0, 1, 8 and 9. */
function lettered(n: number): string {
  return String(n).replaceAll(/\d/g, (digit) => "abcdefghij"[Number(digit)] ?? "");
}
