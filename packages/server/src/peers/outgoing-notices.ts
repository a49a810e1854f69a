// Notices on their way to the other servers: what comes within a few milliseconds goes together, the same one once.

import { setTimeout as sleep } from "node:timers/promises";
import { keyOfNotice, type Notice, WAITING_MAX } from "./notice.ts";

/** What is told within this time goes together. */
const BATCH_MS = 5;

export interface OutgoingNotices {
  add(notice: Notice): void;
  /** Nothing more is sent; resolves when what was being sent is out. */
  stop(): Promise<void>;
}

/** Of what cannot be sent the others learn when the connection is back: they look at everything then. */
export function createOutgoingNotices(options: {
  readonly send: (notices: readonly Notice[]) => Promise<void>;
  readonly onFailed: (reason: unknown) => void;
}): OutgoingNotices {
  const waiting = new Map<string, Notice>();
  const stopping = new AbortController();
  let unkeyed = 0;
  let sending: Promise<void> | undefined;

  return {
    add(notice) {
      if (stopping.signal.aborted) return;
      if (waiting.size >= WAITING_MAX) {
        waiting.clear();
        waiting.set("everything", { kind: "everything" });
      } else {
        waiting.set(keyOfNotice(notice) ?? `${unkeyed++}`, notice);
      }
      sending ??= send().finally(() => {
        sending = undefined;
      });
    },
    async stop() {
      stopping.abort();
      await sending;
    },
  };

  async function send(): Promise<void> {
    while (waiting.size > 0) {
      await sleep(BATCH_MS);
      const notices = [...waiting.values()];
      waiting.clear();
      try {
        await options.send(notices);
      } catch (reason) {
        options.onFailed(reason);
      }
    }
  }
}
