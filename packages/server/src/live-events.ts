// What is happening right now, for whoever watches, here or on another server. Only in memory: an event is a hint to
// read the noun again, so one that is lost with a restart is no loss.

import { EventEmitter, once } from "node:events";
import { type LiveEvent, timeOf } from "@exclave/api";

const KEPT_MAX = 1_000;

export interface LiveEvents {
  say(event: SaidEvent): void;
  /** Resolves at the next event about that noun, or when `signal` fires. */
  next(subject: string, signal: AbortSignal): Promise<void>;
  /** It was said on another server. */
  hear(event: SaidEvent): void;
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

export interface LiveEventsOptions {
  readonly now: () => number;
  /** Told of what is said here. */
  readonly tell?: (event: SaidEvent) => void;
}

export function createLiveEvents({ now, tell = () => undefined }: LiveEventsOptions): LiveEvents {
  const emitter = new EventEmitter().setMaxListeners(0);
  const kept: LiveEvent[] = [];
  // Ids are times: they go on rising over restarts, and a watcher who goes on at another server is not sent to the past.
  let lastId = now() * 1_000;
  let droppedId = 0;

  return {
    say(event) {
      keep(event);
      tell(event);
    },
    hear: keep,
    next,
    watch,
  };

  function keep({ install, ...event }: SaidEvent): void {
    const about = { install: install?.name ?? null, installId: install?.id ?? null };
    lastId = Math.max(lastId + 1, now() * 1_000);
    const live: LiveEvent = { ...event, ...about, id: lastId, at: timeOf(now()) };
    kept.push(live);
    if (kept.length > KEPT_MAX) droppedId = kept.shift()?.id ?? droppedId;
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
      for (const event of keptAfter(seen)) {
        seen = event.id;
        if (isMeant(event)) yield event;
      }
      if (seen >= (kept.at(-1)?.id ?? 0)) await once(emitter, "event", { signal });
      signal.throwIfAborted();
      // Too slow for what happens: it starts anew, from what it has seen.
      if (droppedId > seen) return;
    }
  }

  function keptAfter(seen: number): readonly LiveEvent[] {
    const first = kept.findLastIndex(({ id }) => id <= seen) + 1;
    return first === 0 ? kept.slice() : kept.slice(first);
  }
}

function aboutOf(subject: string): string {
  return `about ${subject}`;
}
