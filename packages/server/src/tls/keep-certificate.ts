// Keeps what the listener shows current while it listens: its own certificate is issued anew before it
// ends, one that was brought is read again when its files change. Connections that are up stay up.

import type { Timers } from "@exclave/api";
import { asFailure } from "@exclave/core";
import type { Logger } from "pino";
import { isDue, type ListenerPlan, type Shown, showFiles } from "./listener-tls.ts";

const LOOK_EVERY_MS = 10_000;

export interface KeepCertificate {
  readonly plan: Exclude<ListenerPlan, { kind: "plain" }>;
  readonly first: Shown;
  /** Issues one of its own. */
  readonly issue: () => Shown;
  readonly apply: (shown: Shown) => void;
  readonly now: () => number;
  readonly timers: Pick<Timers, "every">;
  readonly log: Pick<Logger, "info" | "error">;
}

export interface KeptCertificate {
  /** Of the authority to pin, as of now. */
  fingerprint(): string | undefined;
  /** Looks now; returns when what was found is applied. */
  look(): Promise<void>;
  /** The authority was replaced: another certificate is issued, and who counts is said anew. */
  replace(): void;
  stop(): void;
}

export function keepCertificate(options: KeepCertificate): KeptCertificate {
  const { plan, issue, apply, now, timers, log } = options;
  let shown = options.first;
  let lastFailure: string | undefined;
  const stop = timers.every(LOOK_EVERY_MS, () => void look());
  return { fingerprint: () => shown.fingerprint, look, replace, stop };

  async function look(): Promise<void> {
    try {
      const next = await newer();
      lastFailure = undefined;
      if (!next) return;
      apply(next);
      shown = next;
      log.info({ until: new Date(next.notAfter) }, "the listener has another certificate");
    } catch (reason) {
      // Half-written files are read again at the next look; what is shown stays as it was.
      const { message } = asFailure(reason);
      if (message !== lastFailure)
        log.error({ reason: message }, "the certificate was not replaced");
      lastFailure = message;
    }
  }

  function replace(): void {
    shown = plan.kind === "own" ? issue() : shown;
    apply(shown);
  }

  async function newer(): Promise<Shown | undefined> {
    if (plan.kind === "own") return isDue(shown, now()) ? issue() : undefined;
    const read = await showFiles(plan.files);
    const isSame =
      read.context.cert === shown.context.cert && read.context.key === shown.context.key;
    return isSame ? undefined : read;
  }
}
