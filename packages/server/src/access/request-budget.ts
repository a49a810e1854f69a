// How much of the server one caller may take: requests at once, and time of the event loop. Whoever wants more waits
// in a queue of its own; whoever makes that queue too long is refused with 429. Nobody waits for another caller.

import { Failure } from "@exclave/core";

export interface BudgetLimits {
  /** Requests that are being answered, streams not counted. */
  readonly runningMax: number;
  /** Requests that wait for their turn; of them nothing but the headers has been read. */
  readonly waitingMax: number;
  /** Event streams and logs that are being read. */
  readonly streamsMax: number;
  /** Units at once, and units a second for ever. A unit is about a millisecond of the event loop. */
  readonly burst: number;
  readonly perSecond: number;
}

/**
 * Whose budget: a token's, an address's that shows none, that of all who come by a proxy on this machine; and what an
 * agent or a person has beside it for the registry.
 */
export type CallerKind = keyof typeof BUDGETS;

export const BUDGETS = {
  token: { runningMax: 16, waitingMax: 128, streamsMax: 256, burst: 500, perSecond: 200 },
  address: { runningMax: 8, waitingMax: 32, streamsMax: 8, burst: 200, perSecond: 50 },
  proxy: { runningMax: 64, waitingMax: 512, streamsMax: 64, burst: 2_000, perSecond: 300 },
  /** The vendor's registry, for one agent or person: all jobs of a build agent, each with 32 connections. */
  registry: { runningMax: 128, waitingMax: 1_024, streamsMax: 0, burst: 2_000, perSecond: 500 },
  /** Registry tokens, each a row on record. A release of 400 components needs as many at once, then every five minutes. */
  registryToken: { runningMax: 8, waitingMax: 64, streamsMax: 0, burst: 1_000, perSecond: 4 },
} as const satisfies Record<string, BudgetLimits>;

/** What a request costs before it is known what it costs, and what moving bytes adds. */
export const REQUEST_UNITS = 1;
export const UNIT_BYTES = 16 * 1024;

/** Of so many callers; whoever has nothing under way and was not heard of for longest starts anew. */
export const CALLERS_MAX = 10_000;

export interface Spending {
  readonly running: number;
  readonly waiting: number;
  readonly streams: number;
  /** Below zero: spent in advance, since what a request costs is known when it is over. */
  readonly left: number;
  readonly at: number;
}

export type Entry =
  | { readonly kind: "run" }
  /** `ms` is undefined when one that runs has to end first. */
  | { readonly kind: "wait"; readonly ms: number | undefined }
  | { readonly kind: "refuse"; readonly because: string; readonly retryAfterMs: number };

/** What is left at that time. */
export function leftAt({ left, at }: Spending, limits: BudgetLimits, now: number): number {
  return Math.min(limits.burst, left + (Math.max(0, now - at) / 1_000) * limits.perSecond);
}

/** May one more begin? `isNext` is one that has waited and is the first in its queue. */
export function decideEntry(
  spending: Spending,
  limits: BudgetLimits,
  asked: { readonly now: number; readonly isStream: boolean; readonly isNext: boolean },
): Entry {
  const { now, isStream, isNext } = asked;
  const left = leftAt(spending, limits, now);
  const pauseMs = left > 0 ? 0 : Math.ceil(((1 - left) / limits.perSecond) * 1_000);
  const retryAfterMs = Math.max(1_000, pauseMs);
  if (isStream && spending.streams >= limits.streamsMax) {
    const because = `${limits.streamsMax} streams of this caller are open, which is the limit`;
    return { kind: "refuse", because, retryAfterMs };
  }
  const isOthersTurn = spending.waiting > 0 && !isNext;
  const isFull = !isStream && spending.running >= limits.runningMax;
  if (!isOthersTurn && !isFull && left > 0) return { kind: "run" };
  if (!isNext && spending.waiting >= limits.waitingMax) {
    const because = `${limits.waitingMax} requests of this caller are waiting, which is the limit`;
    return { kind: "refuse", because, retryAfterMs };
  }
  return { kind: "wait", ms: isFull ? undefined : pauseMs };
}

export interface Visit {
  charge(units: number): void;
  /** Once; later calls do nothing. */
  leave(): void;
}

export interface RequestBudgets {
  /** Resolves when it is this request's turn. Throws `rate_limited`, or the signal's reason. */
  enter(request: {
    readonly caller: string;
    readonly kind: CallerKind;
    readonly isStream: boolean;
    readonly signal: AbortSignal;
  }): Promise<Visit>;
}

interface Waiting {
  readonly isStream: boolean;
  readonly turn: PromiseWithResolvers<Visit>;
}

interface Account {
  readonly limits: BudgetLimits;
  readonly waiting: Set<Waiting>;
  running: number;
  streams: number;
  left: number;
  at: number;
  timer: NodeJS.Timeout | undefined;
}

export function createRequestBudgets({
  now = () => performance.now(),
  budgets = BUDGETS,
}: {
  /** Never set back. */
  readonly now?: () => number;
  readonly budgets?: Readonly<Record<CallerKind, BudgetLimits>>;
} = {}): RequestBudgets {
  const accounts = new Map<string, Account>();
  return { enter };

  async function enter({ caller, kind, isStream, signal }: Parameters<RequestBudgets["enter"]>[0]) {
    const account = accountOf(`${kind} ${caller}`, budgets[kind]);
    const entry = decide(account, isStream, false);
    if (entry.kind === "run") return begin(account, isStream);
    if (entry.kind === "refuse") throw refusal(entry);
    const waiting: Waiting = { isStream, turn: Promise.withResolvers() };
    const giveUp = () => {
      if (account.waiting.delete(waiting)) waiting.turn.reject(signal.reason as Error);
    };
    account.waiting.add(waiting);
    signal.addEventListener("abort", giveUp, { once: true });
    letIn(account);
    try {
      return await waiting.turn.promise;
    } finally {
      signal.removeEventListener("abort", giveUp);
    }
  }

  function decide(account: Account, isStream: boolean, isNext: boolean): Entry {
    const spending = { ...account, waiting: account.waiting.size };
    return decideEntry(spending, account.limits, { now: now(), isStream, isNext });
  }

  /** Those whose turn it is, in the order they came. */
  function letIn(account: Account): void {
    clearTimeout(account.timer);
    for (const waiting of account.waiting) {
      const entry = decide(account, waiting.isStream, true);
      if (entry.kind === "wait") {
        if (entry.ms !== undefined) {
          account.timer = setTimeout(() => letIn(account), Math.max(1, entry.ms)).unref();
        }
        return;
      }
      account.waiting.delete(waiting);
      if (entry.kind === "run") waiting.turn.resolve(begin(account, waiting.isStream));
      else waiting.turn.reject(refusal(entry));
    }
  }

  function begin(account: Account, isStream: boolean): Visit {
    const place = isStream ? "streams" : "running";
    account[place]++;
    spend(account, REQUEST_UNITS);
    let isOver = false;
    return {
      charge: (units) => spend(account, units),
      leave() {
        if (isOver) return;
        isOver = true;
        account[place]--;
        letIn(account);
      },
    };
  }

  function spend(account: Account, units: number): void {
    account.left = leftAt({ ...account, waiting: 0 }, account.limits, now()) - units;
    account.at = now();
  }

  function accountOf(name: string, limits: BudgetLimits): Account {
    const account = accounts.get(name) ?? openAccount(limits, now());
    accounts.delete(name);
    accounts.set(name, account);
    if (accounts.size > CALLERS_MAX) forgetOne();
    return account;
  }

  function forgetOne(): void {
    for (const [name, { running, streams, waiting }] of accounts) {
      if (running + streams + waiting.size > 0) continue;
      accounts.delete(name);
      return;
    }
  }
}

function refusal({ because, retryAfterMs }: Extract<Entry, { kind: "refuse" }>): Failure {
  return new Failure("rate_limited", because, { details: { retryAfterMs } });
}

function openAccount(limits: BudgetLimits, at: number): Account {
  const waiting = new Set<Waiting>();
  return { limits, waiting, running: 0, streams: 0, left: limits.burst, at, timer: undefined };
}
