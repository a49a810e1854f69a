// What a running server does from time to time, and once when it starts.

import { flushRepeats } from "./access/note-refusal.ts";
import type { ServerContent } from "./content/server-content.ts";
import type { ServerContext } from "./context.ts";
import { closeLeftLogs } from "./link/close-log.ts";

const FLUSH_EVERY_MS = 15_000;
const RENEW_EVERY_MS = 60 * 60_000;
const TIDY_EVERY_MS = 60 * 60_000;

export interface Upkeep {
  /** Begins nothing more, and puts on record what was still counted. */
  stop(): Promise<void>;
}

export async function startUpkeep(
  context: ServerContext,
  content: Pick<ServerContent, "tidy">,
): Promise<Upkeep> {
  const { log } = context;
  const flush = (options: { readonly all?: boolean } = {}) =>
    orSay("what was refused several times could not be put on record", () =>
      flushRepeats(context, options),
    );
  const renew = () =>
    orSay("the trust document could not be renewed", () => context.trust.keepCurrent());
  const tidy = () =>
    orSay("uploads that were left behind could not be given up", () => content.tidy(Date.now()));
  const flushing = setInterval(() => void flush(), FLUSH_EVERY_MS);
  const renewing = setInterval(() => void renew(), RENEW_EVERY_MS);
  const tidying = setInterval(() => void tidy(), TIDY_EVERY_MS);
  void tidy();
  await orSay("logs of an earlier run could not be compared", () => closeLeftLogs(context));

  return {
    async stop() {
      clearInterval(renewing);
      clearInterval(flushing);
      clearInterval(tidying);
      await flush({ all: true });
    },
  };

  async function orSay(message: string, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (reason) {
      log.error({ reason }, message);
    }
  }
}
