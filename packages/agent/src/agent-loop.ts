// One input at a time: the core decides, what it wants kept is journaled, and only then is done what it wants done.

import type { Timers } from "@exclave/api";
import { advanceAgent } from "./core/agent-core.ts";
import type { AgentEffect, AgentHappening, AgentRules, AgentState } from "./core/agent-state.ts";
import type { Journal, JournalWrite } from "./journal/journal.ts";
import type { TrustFile } from "./trust/trust-file.ts";

export interface AgentLoop {
  state(): AgentState;
  /** Resolves when the input has been taken in, or the loop stopped. */
  feed(input: AgentHappening): Promise<void>;
  stop(): void;
}

export interface AgentLoopOptions {
  /** As it was restored. */
  readonly state: AgentState;
  readonly rules: AgentRules;
  readonly trust: TrustFile;
  readonly journal: Journal;
  readonly perform: (effect: AgentEffect) => void;
  /** What an input wants kept could not be written: nothing of that input has happened, and it is retried. */
  readonly onUnwritten: (reason: unknown) => void;
  /** How long to wait before an input that could not be journaled is retried. */
  readonly retryMs: number;
  readonly now: () => number;
  readonly timers: Timers;
}

export function createAgentLoop(options: AgentLoopOptions): AgentLoop {
  const { rules, trust, journal, now, timers } = options;
  const queue: { readonly input: AgentHappening; readonly done: () => void }[] = [];
  let state = options.state;
  let isBusy = false;
  let isStopped = false;

  return {
    state: () => state,
    feed(input) {
      if (isStopped) return Promise.resolve();
      const { promise, resolve } = Promise.withResolvers<void>();
      queue.push({ input, done: resolve });
      drain();
      return promise;
    },
    stop() {
      isStopped = true;
      for (const { done } of queue.splice(0)) done();
    },
  };

  function drain(): void {
    if (isBusy) return;
    isBusy = true;
    for (let next = queue[0]; next; next = queue[0]) {
      if (!step(next.input)) {
        timers.after(options.retryMs, () => {
          isBusy = false;
          drain();
        });
        return;
      }
      queue.shift();
      next.done();
    }
    isBusy = false;
  }

  function step(input: AgentHappening): boolean {
    const next = advanceAgent(state, { ...input, now: now() }, rules);
    const writes = next.effects.flatMap((effect): readonly JournalWrite[] =>
      effect.kind === "journal" ? effect.writes : [],
    );
    try {
      // All of a step's writes at once, before any of its acts: earlier than each act needs them.
      for (const effect of next.effects) {
        if (effect.kind === "keep_trust") trust.keep(effect.envelope, effect.document);
      }
      journal.commit(writes);
    } catch (reason) {
      options.onUnwritten(reason);
      return false;
    }
    state = next.state;
    for (const effect of next.effects) options.perform(effect);
    return true;
  }
}
