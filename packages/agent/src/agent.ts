// The shell around the agent core: the loop that feeds it, the link to the server, and the work beside them.

import type { Grant, Timers } from "@exclave/api";
import type { JobRuntime } from "@exclave/runtime";
import { createAgentEffects } from "./agent-effects.ts";
import { createAgentLoop } from "./agent-loop.ts";
import { createBackground } from "./background.ts";
import { type AgentRules, type PublishedImages, restoreState } from "./core/agent-state.ts";
import type { CertificateFile } from "./identity/certificate-file.ts";
import type { Identity } from "./identity/identity.ts";
import type { ServerAuthorities } from "./identity/server-authorities.ts";
import type { Jobs } from "./job/jobs.ts";
import type { Spool } from "./job/spool.ts";
import type { Journal } from "./journal/journal.ts";
import { isDamaged } from "./journal/journal-database.ts";
import { type LinkClient, type LinkClientOptions, openLink } from "./link/link-client.ts";
import { withoutPlainGrant } from "./link/plain-grant.ts";
import type { Log } from "./log.ts";
import type { Notices } from "./notices.ts";
import type { TrustFile } from "./trust/trust-file.ts";

export interface AgentOptions {
  readonly identity: Identity;
  readonly version: string;
  readonly platform: string;
  readonly bootId: string;
  /** Plain HTTP beyond loopback was asked for in so many words. */
  readonly insecureHttp?: boolean | undefined;
  readonly rules: AgentRules;
  readonly trust: TrustFile;
  readonly journal: Journal;
  readonly runtime: JobRuntime;
  readonly spool: Spool;
  readonly jobs: Jobs;
  /** How much room the disk has that jobs and journal are on. */
  readonly freeBytes: () => Promise<number>;
  readonly freeBytesMin: number;
  /** How long to wait before an input that could not be journaled is retried. */
  readonly journalRetryMs?: number;
  /** How often it looks at the time and the disk. */
  readonly tickMs?: number;
  /** The first pause before what the runtime did not do is retried; pauses double. */
  readonly runtimeRetryMs?: number;
  /** Where client certificates are kept; without one the server is not told that there could be any. */
  readonly certificate?: CertificateFile | undefined;
  /** What the server is held against, where it was pinned. */
  readonly authorities?: ServerAuthorities | undefined;
  readonly publish?: (grant: Grant) => Promise<PublishedImages>;
  readonly link?: (options: LinkClientOptions) => LinkClient;
  /** What other parts of this agent notice: goes on record. */
  readonly notices?: Notices | undefined;
  /** Damage that was found on the way to this start: goes on record. */
  readonly alarms?: readonly string[];
  /** The journal cannot be relied on any more: only a new start can tell what is left of it. */
  readonly onDamaged?: (reason: unknown) => void;
  readonly now: () => number;
  readonly random: () => number;
  readonly timers: Timers;
  readonly log: Log;
}

export interface Agent {
  /** Stops deciding and lets go of the link; jobs go on without it. */
  stop(): Promise<void>;
}

const TICK_MS = 1_000;
const JOURNAL_RETRY_MS = 5_000;
const RETRY_MS = 2_000;

export async function startAgent(options: AgentOptions): Promise<Agent> {
  const { identity, version, platform, bootId, journal, trust, runtime, spool } = options;
  const { rules, jobs, now, timers, log, alarms = [], insecureHttp = false } = options;
  const stopping = new AbortController();
  const { signal } = stopping;
  const snapshot = journal.load();
  const state = restoreState(snapshot, trust.current());
  const found = await runtime.list();

  const loop = createAgentLoop({
    state,
    rules,
    trust,
    journal,
    perform: (effect) => effects.perform(effect),
    onUnwritten,
    retryMs: options.journalRetryMs ?? JOURNAL_RETRY_MS,
    now,
    timers,
  });
  const link = (options.link ?? openLink)({
    serverUrl: identity.serverUrl,
    onFrame: (frame) =>
      void loop.feed({ kind: "frame", frame: withoutPlainGrant(frame, insecureHttp) }),
    onDisconnected: () => loop.feed({ kind: "disconnected" }),
    random: options.random,
    timers,
    log,
  });
  const retryMs = options.runtimeRetryMs ?? RETRY_MS;
  const background = createBackground({ signal, retryMs, timers, log });
  const effects = createAgentEffects({
    self: { identity, version, platform, bootId, runtime: runtime.type },
    loop,
    link,
    background,
    runtime,
    spool,
    jobs,
    certificate: options.certificate,
    authorities: options.authorities,
    publish: options.publish,
    publishRetryMs: RETRY_MS,
    signal,
    now,
    timers,
    log,
  });

  background.run(async () => {
    await loop.feed({ kind: "restored", found, fresh: snapshot.fresh, alarms });
    // Not before: jobs that nobody here knows are known when this start is journaled.
    for (const name of loop.state().foreign) background.run(() => effects.followForeign(name));
  });
  options.notices?.listen((notice) => loop.feed({ kind: "noticed", ...notice }));
  background.run(() => spool.sweep(new Set(snapshot.jobs.map(({ name }) => name))));
  const disk = createDiskWatch(options, (isLow) => void loop.feed({ kind: "disk", isLow }));
  const stopTicking = timers.every(options.tickMs ?? TICK_MS, () => background.run(tick));

  return {
    async stop() {
      stopping.abort();
      stopTicking();
      loop.stop();
      await link.close();
    },
  };

  function onUnwritten(reason: unknown): void {
    log.error("the journal cannot be written; nothing new is taken on", { reason });
    link.drop("what arrives cannot be kept");
    if (isDamaged(reason)) options.onDamaged?.(reason);
  }

  async function tick(): Promise<void> {
    await disk.look();
    void loop.feed({ kind: "tick" });
  }
}

interface DiskWatch {
  look(): Promise<void>;
}

/** Tells when the disk begins to be nearly full, and when it has room again. */
function createDiskWatch(
  { freeBytes, freeBytesMin, log }: Pick<AgentOptions, "freeBytes" | "freeBytesMin" | "log">,
  onChanged: (isLow: boolean) => void,
): DiskWatch {
  let wasLow = false;
  return {
    async look() {
      const isLow = (await freeBytes()) < freeBytesMin;
      if (isLow === wasLow) return;
      wasLow = isLow;
      log.warn(isLow ? "the disk is nearly full; new jobs are refused" : "the disk has room again");
      onChanged(isLow);
    },
  };
}
