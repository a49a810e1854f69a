// The servers on one database, as one of them sees it: who is there, what they tell each other, and what only one of
// them does at a time. `testing/describe-peers.ts` holds the promises as tests.

import type { Notice } from "./notice.ts";

export interface Peers {
  /** What the others know this server by: another name after each start, and after it was taken for dead. */
  self(): string;
  /** Those that are there as far as is known, this one among them. */
  servers(): readonly string[];
  /** To all others, soon and with what comes until then. Never waits and never fails. */
  tell(notice: Notice): void;
  listen(listener: PeerListener): void;
  /**
   * Nobody else does work of that name meanwhile, on any server. A server that dies, or is cut off from the database,
   * loses its turn: what must not happen twice is refused by the rows as well.
   */
  alone<Value>(name: string, work: () => Promise<Value>): Promise<Value>;
  /** The same, unless somebody is at it. */
  unlessBusy(name: string, work: () => Promise<void>): Promise<void>;
  /** The others see at once that it is gone. */
  close(): Promise<void>;
}

export interface PeerListener {
  /** In the order its sender told them. */
  readonly onNotice: (notice: Notice, from: string) => void;
  /** Who is there has changed, or notices were lost: everything is to be looked at once. */
  readonly onUnsure: () => void;
  /** The others took this server for dead, and it goes on under another name: it holds nothing any more. */
  readonly onRenamed: () => void;
}

/** One at a time within this process. */
export function createAlone() {
  const last = new Map<string, Promise<unknown>>();

  return {
    isBusy: (name: string) => last.has(name),
    async run<Value>(name: string, work: () => Promise<Value>): Promise<Value> {
      const before = last.get(name) ?? Promise.resolve();
      const mine = before.then(work, work);
      const settled = mine.catch(() => undefined);
      last.set(name, settled);
      try {
        return await mine;
      } finally {
        if (last.get(name) === settled) last.delete(name);
      }
    },
  };
}
