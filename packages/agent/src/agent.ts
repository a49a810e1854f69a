// The shell around the agent core: it feeds the core what happens, writes what the core wants kept,
// and only then does what the core wants done. One input at a time; what takes long runs beside the
// loop and comes back as another input.

import { encodeLogFrame, type Grant, helloBytes, type Timers } from "@exclave/api";
import { exitInWords, type JobName, unreachable } from "@exclave/core";
import type { JobRuntime } from "@exclave/runtime";
import { advanceAgent } from "./core/agent-core.ts";
import {
  type AgentEffect,
  type AgentHappening,
  type AgentRules,
  type AgentState,
  type PublishedImages,
  restoreState,
} from "./core/agent-state.ts";
import { type Identity, signWith } from "./identity/identity.ts";
import { awaitExit } from "./job/follow-job.ts";
import type { Jobs } from "./job/jobs.ts";
import type { Spool } from "./job/spool.ts";
import type { Journal, JournalWrite } from "./journal/journal.ts";
import { isDamaged } from "./journal/sqlite-journal.ts";
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
  /** How long to wait before an input that could not be journaled is taken again. */
  readonly journalRetryMs?: number;
  /** How often it looks at the time and the disk. */
  readonly tickMs?: number;
  /** The first pause before what the runtime did not do is retried; pauses double. */
  readonly runtimeRetryMs?: number;
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
const RETRY_MAX_MS = 30_000;

export async function startAgent(options: AgentOptions): Promise<Agent> {
  const { identity, journal, runtime, spool, jobs, rules, now, timers, log } = options;
  const stopping = new AbortController();
  const { signal } = stopping;
  const snapshot = journal.load();
  let state: AgentState = restoreState(snapshot, options.trust.current());
  let isDiskLow = false;
  let logsSent: Promise<void> = Promise.resolve();

  const queue: { readonly input: AgentHappening; readonly done: () => void }[] = [];
  let isBusy = false;

  const found = await runtime.list();
  const link = (options.link ?? openLink)({
    serverUrl: identity.serverUrl,
    onFrame: (frame) =>
      void feed({ kind: "frame", frame: withoutPlainGrant(frame, options.insecureHttp ?? false) }),
    onDisconnected: () => feed({ kind: "disconnected" }),
    random: options.random,
    timers,
    log,
  });
  const { alarms = [] } = options;
  void feed({ kind: "restored", found, fresh: snapshot.fresh, alarms });
  options.notices?.listen((notice) => feed({ kind: "noticed", ...notice }));
  for (const name of state.foreign) inBackground(() => followForeign(name));
  inBackground(() => spool.sweep(new Set(snapshot.jobs.map(({ name }) => name))));
  const stopTicking = timers.every(options.tickMs ?? TICK_MS, () => inBackground(tick));

  return {
    async stop() {
      stopping.abort();
      stopTicking();
      for (const { done } of queue.splice(0)) done();
      await link.close();
    },
  };

  function feed(input: AgentHappening): Promise<void> {
    if (signal.aborted) return Promise.resolve();
    const { promise, resolve } = Promise.withResolvers<void>();
    queue.push({ input, done: resolve });
    drain();
    return promise;
  }

  function drain(): void {
    if (isBusy) return;
    isBusy = true;
    for (let next = queue[0]; next && !signal.aborted; next = queue[0]) {
      if (!step(next.input)) {
        // Nothing of this input has happened: it is taken again when there may be room.
        timers.after(options.journalRetryMs ?? JOURNAL_RETRY_MS, () => {
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
        if (effect.kind === "keep_trust") options.trust.keep(effect.envelope, effect.document);
      }
      journal.commit(writes);
    } catch (reason) {
      log.error("the journal cannot be written; nothing new is taken on", { reason });
      link.drop("what arrives cannot be kept");
      if (isDamaged(reason)) options.onDamaged?.(reason);
      return false;
    }
    state = next.state;
    for (const effect of next.effects) perform(effect);
    return true;
  }

  function perform(effect: AgentEffect): void {
    switch (effect.kind) {
      case "journal":
      case "keep_trust":
        return;
      case "send":
        return link.send(effect.frame);
      case "hello":
        return sayHello(effect.nonce, effect.facts);
      case "send_log":
        return sendLog(effect.name, effect.offset, effect.bytes);
      case "inspect":
        return inBackground(async () => {
          const run = await untilDone(() => runtime.inspect(effect.name));
          await feed({ kind: "inspected", name: effect.name, run });
        });
      case "launch":
        return inBackground(async () => {
          await feed(await jobs.launch(effect.record, effect));
        });
      case "follow":
        return inBackground(() => follow(effect));
      case "stop":
        return inBackground(() => stopUntilGone(effect.name, effect.graceMs));
      case "remove":
        return inBackground(() => untilDone(() => runtime.remove(effect.name)));
      case "drop_spool":
        return inBackground(() => spool.remove(effect.name));
      case "status":
        return inBackground(async () => {
          const seen = await jobs.lookUpStatus(effect.name, effect.entry, signal);
          const { component } = effect.entry;
          await feed({ kind: "status_seen", component, name: effect.name, seen });
        });
      case "publish":
        return inBackground(() => publish(effect.grant));
      case "close":
        return link.drop(effect.because);
      case "note":
        return log[effect.level](effect.text);
      default:
        return unreachable(effect);
    }
  }

  function sayHello(nonce: string, facts: Extract<AgentEffect, { kind: "hello" }>["facts"]): void {
    const { agent, keyGeneration, identityKey } = identity;
    const { bootId, version, platform } = options;
    const proof = signWith(identityKey, helloBytes(nonce, agent, bootId));
    const about = { agent, version, platform, runtime: runtime.type, capabilities: [] };
    const clockMs = now();
    link.send({
      type: "hello",
      protos: [1],
      ...about,
      keyGeneration,
      bootId,
      ...facts,
      clockMs,
      proof,
    });
  }

  /** In order, and only on the connection it was meant for. */
  function sendLog(name: JobName, offset: number, bytes: number): void {
    const { session } = link;
    const earlier = logsSent;
    logsSent = readAndSend();

    async function readAndSend(): Promise<void> {
      await earlier;
      const manifest = state.jobs.get(name)?.record.manifest;
      if (!manifest || link.session !== session) return;
      const { id: job, attempt } = manifest;
      try {
        const chunk = await spool.read(name, offset, bytes);
        if (link.session !== session || chunk.length === 0) return;
        link.sendBytes(encodeLogFrame({ job, attempt, offset, bytes: chunk }));
      } catch (reason) {
        log.warn("a spooled log cannot be read", { job, reason });
      }
    }
  }

  /** A job without a manifest here: nothing it says can be passed on, but its end is. */
  async function followForeign(name: JobName): Promise<void> {
    const exit = await untilDone(() => awaitExit({ runtime, timers, signal }, name));
    const because = `it ended after the agent had lost its journal: ${exitInWords(exit)}`;
    await feed({ kind: "foreign_exited", name, because });
  }

  async function follow({ record }: Extract<AgentEffect, { kind: "follow" }>): Promise<void> {
    const { name } = record;
    const ended = await untilDone(() =>
      jobs.follow(record, {
        signal,
        isCancelled: () => state.jobs.get(name)?.record.cancelGraceMs !== undefined,
        onSpooled: (bytes) => void feed({ kind: "spooled", name, bytes }),
      }),
    );
    await feed({ kind: "exited", name, ended });
  }

  async function publish(grant: Grant): Promise<void> {
    try {
      const images = (await options.publish?.(grant)) ?? [];
      await feed({ kind: "published", images });
    } catch (reason) {
      log.error("the images cannot be published", { reason });
      await timers.sleep(RETRY_MS, signal);
      await feed({ kind: "publish_failed" });
    }
  }

  async function tick(): Promise<void> {
    const isLow = (await options.freeBytes()) < options.freeBytesMin;
    if (isLow !== isDiskLow) {
      isDiskLow = isLow;
      log.warn(isLow ? "the disk is nearly full; new jobs are refused" : "the disk has room again");
      void feed({ kind: "disk", isLow });
    }
    void feed({ kind: "tick" });
  }

  /** Runs without holding up the loop. What it cannot do is logged; what must not be left undone repeats itself. */
  function inBackground(work: () => Promise<void>): void {
    work().catch((reason: unknown) => {
      if (!signal.aborted) log.error("background work failed", { reason });
    });
  }

  /** A stop that fails is retried for as long as there is something to stop. */
  async function stopUntilGone(name: JobName, graceMs: number): Promise<void> {
    await untilDone(async () => {
      try {
        await runtime.stop(name, graceMs);
      } catch (reason) {
        const run = await runtime.inspect(name);
        if (run.kind !== "absent" && run.kind !== "exited") throw reason;
      }
    });
  }

  async function untilDone<Value>(work: () => Promise<Value>): Promise<Value> {
    const firstMs = options.runtimeRetryMs ?? RETRY_MS;
    for (let pauseMs = firstMs; ; pauseMs = Math.min(pauseMs * 2, RETRY_MAX_MS)) {
      try {
        return await work();
      } catch (reason) {
        signal.throwIfAborted();
        log.warn("the runtime did not do as asked; retrying", { reason, pauseMs });
        await timers.sleep(pauseMs, signal);
      }
    }
  }
}
