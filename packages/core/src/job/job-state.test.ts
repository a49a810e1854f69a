import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Instant } from "../ids.ts";
import {
  advanceJob,
  isSettled,
  isWithAgent,
  JOB_STATUSES,
  type JobEnd,
  type JobEvent,
  JobState,
  type JobStatus,
} from "./job-state.ts";

const since = Instant.parse(1_000);
const at = Instant.parse(2_000);

const STATES: Record<JobStatus, JobState> = {
  queued: { status: "queued", since },
  offered: { status: "offered", since, cancelRequested: false },
  accepted: { status: "accepted", since, cancelRequested: false },
  running: { status: "running", since, cancelRequested: false },
  succeeded: { status: "succeeded", since },
  failed: { status: "failed", since, code: "tool", message: "exit 1" },
  cancelled: { status: "cancelled", since },
  rejected: { status: "rejected", since, code: "signature", because: "nobody signed it" },
  unknown: { status: "unknown", since, because: "the agent lost its journal" },
};

const end = (outcome: JobEnd): JobEvent => ({ type: "end", at, outcome });
const EVENTS = {
  offer: { type: "offer", at },
  accept: { type: "accept", at },
  reject: { type: "reject", at, code: "policy", because: "the policy says no" },
  start: { type: "start", at },
  succeed: end({ kind: "succeeded" }),
  fail: end({ kind: "failed", code: "lost", message: "no result" }),
  stop: end({ kind: "cancelled" }),
  vanish: end({ kind: "unknown", because: "nobody saw it end" }),
  cancel: { type: "cancel_requested", at },
  abandon: { type: "abandon", at, because: "the install was forgotten" },
  cancelHeard: { type: "cancel_requested", at, mayBeHeard: true },
  abandonHeard: { type: "abandon", at, because: "the install was forgotten", mayBeHeard: true },
} as const satisfies Record<string, JobEvent>;

// Every state meets every event. The type has no optional key, so a new state or a new event does
// not compile until its row or column is decided here.
// biome-ignore format: a table reads as a table.
const TABLE: Record<JobStatus, Record<keyof typeof EVENTS, JobStatus | "-">> = {
  queued:    { offer: "offered", accept: "-",        reject: "-",        start: "-",       succeed: "-",         fail: "-",      stop: "-",         vanish: "-",       cancel: "cancelled", abandon: "cancelled", cancelHeard: "unknown", abandonHeard: "unknown" },
  offered:   { offer: "-",       accept: "accepted", reject: "rejected", start: "running", succeed: "succeeded", fail: "failed", stop: "cancelled", vanish: "unknown", cancel: "offered",   abandon: "unknown", cancelHeard: "offered", abandonHeard: "unknown" },
  accepted:  { offer: "-",       accept: "-",        reject: "rejected", start: "running", succeed: "succeeded", fail: "failed", stop: "cancelled", vanish: "unknown", cancel: "accepted",  abandon: "unknown", cancelHeard: "accepted", abandonHeard: "unknown" },
  running:   { offer: "-",       accept: "-",        reject: "-",        start: "-",       succeed: "succeeded", fail: "failed", stop: "cancelled", vanish: "unknown", cancel: "running",   abandon: "unknown", cancelHeard: "running", abandonHeard: "unknown" },
  succeeded: { offer: "-",       accept: "-",        reject: "-",        start: "-",       succeed: "-",         fail: "-",      stop: "-",         vanish: "-",       cancel: "-",         abandon: "-", cancelHeard: "-", abandonHeard: "-" },
  failed:    { offer: "-",       accept: "-",        reject: "-",        start: "-",       succeed: "-",         fail: "-",      stop: "-",         vanish: "-",       cancel: "-",         abandon: "-", cancelHeard: "-", abandonHeard: "-" },
  cancelled: { offer: "-",       accept: "-",        reject: "-",        start: "-",       succeed: "-",         fail: "-",      stop: "-",         vanish: "-",       cancel: "-",         abandon: "-", cancelHeard: "-", abandonHeard: "-" },
  rejected:  { offer: "-",       accept: "-",        reject: "-",        start: "-",       succeed: "-",         fail: "-",      stop: "-",         vanish: "-",       cancel: "-",         abandon: "-", cancelHeard: "-", abandonHeard: "-" },
  unknown:   { offer: "-",       accept: "-",        reject: "-",        start: "-",       succeed: "-",         fail: "-",      stop: "-",         vanish: "-",       cancel: "-",         abandon: "-", cancelHeard: "-", abandonHeard: "-" },
};

describe("a job", () => {
  for (const status of JOB_STATUSES) {
    for (const [name, expected] of Object.entries(TABLE[status])) {
      test(`that is ${status} meets ${name}: ${expected}`, () => {
        const next = advanceJob(STATES[status], EVENTS[name as keyof typeof EVENTS]);

        assert.equal(next?.status ?? "-", expected);
      });
    }
  }

  test("is the same after it was stored and read", () => {
    for (const state of Object.values(STATES)) {
      assert.deepEqual(JobState.parse(JSON.parse(JSON.stringify(state))), state);
    }
    assert.equal(JobState.safeParse({ status: "offered", since }).success, false);
  });

  test("that is settled has no way out, and one that is not has", () => {
    for (const status of JOB_STATUSES) {
      const ways = Object.values(TABLE[status]).filter((next) => next !== "-");
      assert.equal(isSettled(STATES[status]), ways.length === 0, status);
    }
  });

  test("remembers that its end was asked for, and is asked once", () => {
    const asked = advanceJob(STATES.offered, EVENTS.cancel);
    assert.deepEqual(asked, { status: "offered", since, cancelRequested: true });

    const started = advanceJob(asked ?? STATES.queued, EVENTS.start);
    assert.deepEqual(started, { status: "running", since: at, cancelRequested: true });
    assert.equal(advanceJob(started ?? STATES.queued, EVENTS.cancel), undefined);
  });

  test("says why it failed, was refused or is unknown, and since when", () => {
    assert.deepEqual(advanceJob(STATES.running, EVENTS.fail), {
      status: "failed",
      since: at,
      code: "lost",
      message: "no result",
    });
    assert.deepEqual(advanceJob(STATES.offered, EVENTS.reject), {
      status: "rejected",
      since: at,
      code: "policy",
      because: "the policy says no",
    });
    assert.deepEqual(advanceJob(STATES.accepted, EVENTS.abandon), {
      status: "unknown",
      since: at,
      because: "the install was forgotten",
    });
  });

  test("is with the agent from the offer to the end", () => {
    const held = JOB_STATUSES.filter((status) => isWithAgent({ status }));
    assert.deepEqual(held, ["offered", "accepted", "running"]);
  });
});
