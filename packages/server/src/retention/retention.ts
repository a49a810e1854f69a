// Sweeps from time to time. One that fails is repeated at the next; one that is under way when the server stops ends
// at the next pause.

import type { Timers } from "@exclave/api";
import type { RegistryPlace } from "../content/server-content.ts";
import type { ServerContext } from "../context.ts";
import { RETENTION, type RetentionSettings } from "./retention-rules.ts";
import { type Swept, sweep } from "./sweep.ts";

const EVERY_MS = 60 * 60_000;
/** Agents come back first. */
const FIRST_MS = 5 * 60_000;

export interface Retention {
  /** Now, and not beside one that is under way. */
  sweep(): Promise<Swept | undefined>;
  stop(): Promise<void>;
}

export function startRetention(
  context: ServerContext,
  options: {
    readonly settings?: Partial<RetentionSettings> | undefined;
    readonly registry: RegistryPlace;
    readonly timers: Timers;
  },
): Retention {
  const { registry, timers } = options;
  const settings = { ...RETENTION, ...options.settings };
  const stopping = new AbortController();
  let working: Promise<Swept | undefined> | undefined;
  const stopFirst = timers.after(FIRST_MS, () => void once());
  const stopRepeating = timers.every(EVERY_MS, () => void once());

  return {
    sweep: once,
    async stop() {
      stopFirst();
      stopRepeating();
      stopping.abort();
      await working;
    },
  };

  function once(): Promise<Swept | undefined> {
    working ??= run().finally(() => {
      working = undefined;
    });
    return working;
  }

  async function run(): Promise<Swept | undefined> {
    if (stopping.signal.aborted) return undefined;
    try {
      let swept: Swept | undefined;
      // One server at a time is enough: what it leaves, the next sweep of any of them finds.
      await context.peers.unlessBusy("sweep", async () => {
        swept = await sweep(context, { settings, registry, signal: stopping.signal });
        context.log.info(swept, "what is old was taken away");
      });
      return swept;
    } catch (reason) {
      context.log.error({ reason }, "what is old could not be taken away; it is tried again");
      return undefined;
    }
  }
}
