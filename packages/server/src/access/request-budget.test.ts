import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Failure } from "@exclave/core";
import {
  BUDGETS,
  type BudgetLimits,
  createRequestBudgets,
  decideEntry,
  leftAt,
  type RequestBudgets,
  type Spending,
  type Visit,
} from "./request-budget.ts";

const LIMITS: BudgetLimits = {
  runningMax: 2,
  waitingMax: 3,
  streamsMax: 1,
  burst: 10,
  perSecond: 10,
};

const fresh: Spending = { running: 0, waiting: 0, streams: 0, left: 10, at: 0 };

function decide(spending: Partial<Spending>, asked: { isStream?: boolean; isNext?: boolean } = {}) {
  const { isStream = false, isNext = false } = asked;
  return decideEntry({ ...fresh, ...spending }, LIMITS, { now: 0, isStream, isNext });
}

describe("one more request of a caller", () => {
  test("runs while there is a place and something left", () => {
    assert.deepEqual(decide({}), { kind: "run" });
    assert.deepEqual(decide({ running: 1, left: 0.1 }), { kind: "run" });
  });

  test("waits for a place, for its budget, and for those before it", () => {
    assert.deepEqual(decide({ running: 2 }), { kind: "wait", ms: undefined });
    assert.deepEqual(decide({ left: -4 }), { kind: "wait", ms: 500 });
    assert.equal(decide({ waiting: 1 }).kind, "wait");
    assert.deepEqual(decide({ waiting: 1 }, { isNext: true }), { kind: "run" });
  });

  test("is refused when too many wait, with the time until there is something left", () => {
    const refused = decide({ waiting: 3, left: -39 });

    assert.equal(refused.kind, "refuse");
    assert.equal(refused.kind === "refuse" && refused.retryAfterMs, 4_000);
  });

  test("is never refused for the queue once it is the first in it", () => {
    assert.equal(decide({ waiting: 4, running: 2 }, { isNext: true }).kind, "wait");
  });

  test("a stream takes no place of the others, and has a limit of its own", () => {
    assert.deepEqual(decide({ running: 2 }, { isStream: true }), { kind: "run" });
    assert.equal(decide({ streams: 1 }, { isStream: true }).kind, "refuse");
  });

  test("the budget refills with time, up to its burst, and never by a clock set back", () => {
    assert.equal(leftAt({ ...fresh, left: -5 }, LIMITS, 1_000), 5);
    assert.equal(leftAt({ ...fresh, left: 5 }, LIMITS, 60_000), 10);
    assert.equal(leftAt({ ...fresh, left: 5, at: 1_000 }, LIMITS, 0), 5);
  });
});

function enter(budgets: RequestBudgets, caller: string, signal = new AbortController().signal) {
  return budgets.enter({ caller, kind: "token", isStream: false, signal });
}

function limited(limits: Partial<BudgetLimits> = {}): RequestBudgets {
  const token = { ...LIMITS, ...limits };
  return createRequestBudgets({ now: () => 0, budgets: { ...BUDGETS, token } });
}

async function isWaiting(visit: Promise<Visit>): Promise<boolean> {
  return (await Promise.race([visit, new Promise((r) => setImmediate(r, "waits"))])) === "waits";
}

test("a caller with a full queue is refused and another one is served at once", async () => {
  const budgets = limited();
  const visits = [await enter(budgets, "a"), await enter(budgets, "a")];
  const waiting = [1, 2, 3].map(() => enter(budgets, "a"));

  await assert.rejects(
    enter(budgets, "a"),
    (reason) => reason instanceof Failure && reason.code === "rate_limited",
  );
  await enter(budgets, "b");

  for (const visit of visits) visit.leave();
  for (const visit of waiting) (await visit).leave();
  await enter(budgets, "a");
});

test("those who wait come in the order they came, each once another has left", async () => {
  const budgets = limited({ runningMax: 1 });
  const running = await enter(budgets, "a");
  const first = enter(budgets, "a");
  const second = enter(budgets, "a");

  running.leave();
  running.leave();

  const next = await first;
  assert.ok(await isWaiting(second));
  next.leave();
  await second;
});

test("one that has gone gives up its place in the queue", async () => {
  const budgets = limited({ runningMax: 1 });
  const running = await enter(budgets, "a");
  const gone = new AbortController();
  const first = enter(budgets, "a", gone.signal);
  const second = enter(budgets, "a");

  gone.abort(new Error("gone"));
  await assert.rejects(first, /gone/);
  running.leave();

  await second;
});

test("what a request turned out to cost is paid by the caller's next one", async () => {
  const budgets = limited();
  const visit = await enter(budgets, "a");

  visit.charge(20);
  visit.leave();

  assert.ok(await isWaiting(enter(budgets, "a")));
  await enter(budgets, "b");
});
