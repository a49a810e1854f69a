// What is happening right now, for whoever watches. Only in memory: an event is a hint to read the
// noun again, so one that is lost with a restart is no loss.

import { EventEmitter, once } from "node:events";
import { type LiveEvent, timeOf } from "@exclave/api";

const KEPT_MAX = 1_000;

export interface LiveEvents {
  say(event: SaidEvent): void;
  /** Resolves at the next event about that noun, or when `signal` fires. */
  next(subject: string, signal: AbortSignal): Promise<void>;
  /** Those kept after that id, then each as it comes, until `signal` fires or the watcher is left behind. */
  watch(options: WatchOptions): AsyncIterable<LiveEvent>;
}

export interface SaidEvent extends Pick<LiveEvent, "kind" | "subject" | "component" | "message"> {
  readonly install: { readonly id: string; readonly name: string } | null;
}

export interface WatchOptions {
  readonly after?: number | undefined;
  /** By id. */
  readonly install?: string | undefined;
  readonly signal: AbortSignal;
}

export function createLiveEvents({ now }: { readonly now: () => number }): LiveEvents {
  const emitter = new EventEmitter().setMaxListeners(0);
  const kept: LiveEvent[] = [];
  // Ids go on rising over restarts, so that a watcher who comes back is not sent to the past.
  let lastId = now() * 1_000;

  return { say, next, watch };

  function say({ install, ...event }: SaidEvent): void {
    const about = { install: install?.name ?? null, installId: install?.id ?? null };
    const live: LiveEvent = { ...event, ...about, id: ++lastId, at: timeOf(now()) };
    kept.push(live);
    if (kept.length > KEPT_MAX) kept.shift();
    emitter.emit("event", live);
    emitter.emit(aboutOf(live.subject));
  }

  async function next(subject: string, signal: AbortSignal): Promise<void> {
    await once(emitter, aboutOf(subject), { signal }).catch(() => undefined);
  }

  /** Whoever watches has a place among those kept, and no queue of its own that grows while it does not read. */
  async function* watch({ after, install, signal }: WatchOptions): AsyncIterable<LiveEvent> {
    const isMeant = (event: LiveEvent) => install === undefined || event.installId === install;
    let seen = Math.min(after ?? lastId, lastId);
    for (;;) {
      const coming = kept.slice(-(lastId - seen) || kept.length);
      for (const event of coming) {
        seen = event.id;
        if (isMeant(event)) yield event;
      }
      if (seen === lastId) await once(emitter, "event", { signal });
      signal.throwIfAborted();
      // Too slow for what happens: it starts anew, from what it has seen.
      if ((kept[0]?.id ?? 0) > seen + 1) return;
    }
  }
}

function aboutOf(subject: string): string {
  return `about ${subject}`;
}
