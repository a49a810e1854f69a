// The shell around the agent core: it feeds the core what happens, writes what the core wants kept,
// and only then does what the core wants done. One input at a time; what takes long runs beside the
// loop and comes back as another input.

import { statfs } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { encodeLogFrame, type Grant, helloBytes, type ServerFrame } from "@exclave/api";
import { type JobName, unreachable } from "@exclave/core";
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
import { type Identity, signWith } from "./identity.ts";
import type { Jobs } from "./jobs.ts";
import type { Journal, JournalWrite } from "./journal/journal.ts";
import { type LinkClient, type LinkClientOptions, openLink } from "./link-client.ts";
import type { Log } from "./log.ts";
import type { Spool } from "./spool.ts";

export interface AgentOptions {
  readonly identity: Identity;
  readonly version: string;
  readonly platform: string;
  readonly bootId: string;
  readonly rules: AgentRules;
  readonly journal: Journal;
  readonly runtime: JobRuntime;
  readonly spool: Spool;
  readonly jobs: Jobs;
  /** The directory whose disk must have room. */
  readonly home: string;
  readonly freeBytesMin: number;
  /** How long to wait before an input that could not be journaled is taken again. */
  readonly journalRetryMs?: number;
  readonly publish?: (grant: Grant) => Promise<PublishedImages>;
  readonly link?: (options: LinkClientOptions) => LinkClient;
  readonly now: () => number;
  readonly random: () => number;
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
  const { identity, journal, runtime, spool, jobs, rules, now, log } = options;
  const stopping = new AbortController();
  const { signal } = stopping;
  const snapshot = journal.load();
  let state: AgentState = restoreState(snapshot);
  let isDiskLow = false;
  let logsSent: Promise<void> = Promise.resolve();

  const queue: { readonly input: AgentHappening; readonly done: () => void }[] = [];
  let isBusy = false;

  const found = await runtime.list();
  const link = (options.link ?? openLink)({
    serverUrl: identity.serverUrl,
    onFrame: (frame: ServerFrame) => void feed({ kind: "frame", frame }),
    onDisconnected: () => feed({ kind: "disconnected" }),
    random: options.random,
    log,
  });
  void feed({ kind: "restored", found, fresh: snapshot.fresh });
  beside(() => spool.sweep(new Set(snapshot.jobs.map(({ name }) => name))));
  const ticks = setInterval(() => beside(tick), TICK_MS);

  return {
    async stop() {
      stopping.abort();
      clearInterval(ticks);
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
        setTimeout(() => {
          isBusy = false;
          drain();
        }, options.journalRetryMs ?? JOURNAL_RETRY_MS).unref();
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
      journal.commit(writes);
    } catch (reason) {
      log.error("the journal cannot be written; nothing new is taken on", { reason });
      link.drop("what arrives cannot be kept");
      return false;
    }
    state = next.state;
    for (const effect of next.effects) perform(effect);
    return true;
  }

  function perform(effect: AgentEffect): void {
    switch (effect.kind) {
      case "journal":
        return;
      case "send":
        return link.send(effect.frame);
      case "hello":
        return sayHello(effect.nonce, effect.facts);
      case "send_log":
        return sendLog(effect.name, effect.offset, effect.bytes);
      case "inspect":
        return beside(async () => {
          const run = await untilDone(() => runtime.inspect(effect.name));
          await feed({ kind: "inspected", name: effect.name, run });
        });
      case "launch":
        return beside(async () => {
          await feed(await jobs.launch(effect.record, effect.grant));
        });
      case "follow":
        return beside(() => follow(effect));
      case "stop":
        return beside(() => runtime.stop(effect.name, effect.graceMs));
      case "remove":
        return beside(() => runtime.remove(effect.name));
      case "drop_spool":
        return beside(() => spool.remove(effect.name));
      case "status":
        return beside(async () => {
          const seen = await jobs.lookUpStatus(effect.name, effect.entry, signal);
          const { component } = effect.entry;
          await feed({ kind: "status_seen", component, name: effect.name, seen });
        });
      case "publish":
        return beside(() => publish(effect.grant));
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
      await sleep(RETRY_MS, undefined, { signal });
      await feed({ kind: "publish_failed" });
    }
  }

  async function tick(): Promise<void> {
    const { bavail, bsize } = await statfs(options.home);
    const isLow = bavail * bsize < options.freeBytesMin;
    if (isLow !== isDiskLow) {
      isDiskLow = isLow;
      log.warn(isLow ? "the disk is nearly full; new jobs are refused" : "the disk has room again");
      void feed({ kind: "disk", isLow });
    }
    void feed({ kind: "tick" });
  }

  /** Runs beside the loop. What it cannot do is logged; what must not be left undone repeats itself. */
  function beside(work: () => Promise<void>): void {
    work().catch((reason: unknown) => {
      if (!signal.aborted) log.error("something beside the loop failed", { reason });
    });
  }

  async function untilDone<Value>(work: () => Promise<Value>): Promise<Value> {
    while (true) {
      try {
        return await work();
      } catch (reason) {
        signal.throwIfAborted();
        log.warn("the runtime cannot be asked; trying again", { reason });
        await sleep(RETRY_MS, undefined, { signal });
      }
    }
  }
}
