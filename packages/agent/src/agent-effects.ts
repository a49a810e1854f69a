// Does what the agent core wants done. What takes long runs beside the loop and comes back as another input.

import {
  AGENT_CAPABILITIES,
  AUTHORITIES,
  CERTIFICATES,
  type Grant,
  helloBytes,
  type Timers,
} from "@exclave/api";
import { exitInWords, type JobName, unreachable } from "@exclave/core";
import type { JobRuntime } from "@exclave/runtime";
import type { AgentLoop } from "./agent-loop.ts";
import type { Background } from "./background.ts";
import type { AgentEffect, PublishedImages } from "./core/agent-state.ts";
import type { CertificateFile } from "./identity/certificate-file.ts";
import { type Identity, signWith } from "./identity/identity.ts";
import type { ServerAuthorities } from "./identity/server-authorities.ts";
import { awaitExit } from "./job/follow-job.ts";
import type { Jobs } from "./job/jobs.ts";
import { createLogSender } from "./job/log-sender.ts";
import type { Spool } from "./job/spool.ts";
import type { LinkClient } from "./link/link-client.ts";
import type { Log } from "./log.ts";

export interface AgentEffects {
  perform(effect: AgentEffect): void;
  /** A job without a manifest here: nothing it says can be passed on, but its end is. */
  followForeign(name: JobName): Promise<void>;
}

/** What an agent says of itself. */
export interface AgentSelf {
  readonly identity: Identity;
  readonly version: string;
  readonly platform: string;
  readonly bootId: string;
  /** The type of its runtime. */
  readonly runtime: string;
}

export interface AgentEffectsOptions {
  readonly self: AgentSelf;
  readonly loop: AgentLoop;
  readonly link: LinkClient;
  readonly background: Background;
  readonly runtime: JobRuntime;
  readonly spool: Spool;
  readonly jobs: Jobs;
  readonly certificate?: CertificateFile | undefined;
  readonly authorities?: ServerAuthorities | undefined;
  readonly publish?: ((grant: Grant) => Promise<PublishedImages>) | undefined;
  /** How long to wait before images that could not be published are retried. */
  readonly publishRetryMs: number;
  readonly signal: AbortSignal;
  readonly now: () => number;
  readonly timers: Timers;
  readonly log: Log;
}

type Effect<Kind extends AgentEffect["kind"]> = Extract<AgentEffect, { kind: Kind }>;

export function createAgentEffects(options: AgentEffectsOptions): AgentEffects {
  const { loop, link, background, runtime, spool, jobs, signal, timers, log } = options;
  const { run, untilDone } = background;
  const recordOf = (name: JobName) => loop.state().jobs.get(name)?.record;
  const logs = createLogSender({ link, spool, recordOf, log });

  return { perform, followForeign };

  function perform(effect: AgentEffect): void {
    switch (effect.kind) {
      case "journal":
      case "keep_trust":
        // Done by the loop, before anything else.
        return;
      case "send":
        return link.send(effect.frame);
      case "hello":
        return sayHello(link, options, effect);
      case "keep_certificate":
        return keepCertificate(options, effect.certificate);
      case "keep_authorities":
        return keepAuthorities(options, effect.certificates);
      case "send_log":
        return logs.send(effect.name, effect.offset, effect.bytes);
      case "inspect":
        return run(() => inspect(effect));
      case "launch":
        return run(async () => loop.feed(await jobs.launch(effect.record, effect)));
      case "follow":
        return run(() => follow(effect));
      case "stop":
        return run(() => untilDone(() => stopIfThere(runtime, effect)));
      case "remove":
        return run(() => untilDone(() => jobs.remove(effect.name)));
      case "drop_spool":
        return run(() => spool.remove(effect.name));
      case "status":
        return run(() => lookUpStatus(effect));
      case "publish":
        return run(() => publish(effect));
      case "close":
        return link.drop(effect.because);
      case "note":
        return log[effect.level](effect.text);
      default:
        return unreachable(effect);
    }
  }

  async function inspect({ name }: Effect<"inspect">): Promise<void> {
    const seen = await untilDone(() => runtime.inspect(name));
    await loop.feed({ kind: "inspected", name, run: seen });
  }

  async function follow({ record }: Effect<"follow">): Promise<void> {
    const { name } = record;
    const ended = await untilDone(() =>
      jobs.follow(record, {
        signal,
        isCancelled: () => recordOf(name)?.cancelGraceMs !== undefined,
        onSpooled: (bytes) => void loop.feed({ kind: "spooled", name, bytes }),
      }),
    );
    await loop.feed({ kind: "exited", name, ended });
  }

  async function followForeign(name: JobName): Promise<void> {
    const exit = await untilDone(() => awaitExit({ runtime, timers, signal }, name));
    const because = `it ended after the agent had lost its journal: ${exitInWords(exit)}`;
    await loop.feed({ kind: "foreign_exited", name, because });
  }

  async function lookUpStatus({ name, entry }: Effect<"status">): Promise<void> {
    const seen = await jobs.lookUpStatus(name, entry, signal);
    await loop.feed({ kind: "status_seen", component: entry.component, name, seen });
  }

  async function publish({ grant }: Effect<"publish">): Promise<void> {
    try {
      const images = (await options.publish?.(grant)) ?? [];
      await loop.feed({ kind: "published", images });
    } catch (reason) {
      log.error("the images cannot be published", { reason });
      await timers.sleep(options.publishRetryMs, signal);
      await loop.feed({ kind: "publish_failed" });
    }
  }
}

function sayHello(
  link: LinkClient,
  {
    self,
    certificate,
    authorities,
    now,
  }: Pick<AgentEffectsOptions, "self" | "certificate" | "authorities" | "now">,
  { nonce, facts }: Effect<"hello">,
): void {
  const { identity, bootId, version, platform, runtime } = self;
  const { agent, keyGeneration, identityKey } = identity;
  const proof = signWith(identityKey, helloBytes(nonce, agent, bootId));
  const capabilities = AGENT_CAPABILITIES.filter((name) => {
    if (name === CERTIFICATES) return certificate;
    return name === AUTHORITIES ? authorities : true;
  });
  const known = authorities && { authorities: authorities.fingerprints() };
  const about = { agent, version, platform, runtime, capabilities };
  const life = { keyGeneration, bootId, ...facts, ...known, clockMs: now(), proof };
  link.send({ type: "hello", protos: [1], ...about, ...life });
}

type Keeping = Pick<AgentEffectsOptions, "certificate" | "authorities" | "link" | "log">;

/** What cannot be written is not used; the server offers another one. */
function keepCertificate({ certificate, link, log }: Keeping, pem: string): void {
  try {
    const until = certificate?.keep(pem);
    if (until === undefined) return;
    log.info("has another certificate for the link", { until: new Date(until) });
    link.send({ type: "certificate_kept", until });
  } catch (reason) {
    log.warn("the certificate for the link was not kept", { reason });
  }
}

function keepAuthorities({ authorities, link, log }: Keeping, pems: readonly string[]): void {
  try {
    authorities?.keep(pems);
    const fingerprints = authorities?.fingerprints() ?? [];
    log.info("the server has other authorities", { fingerprints });
    link.send({ type: "authorities_kept", fingerprints });
  } catch (reason) {
    log.warn("the server's authorities were not kept", { reason });
  }
}

/** Fails only while there is something to stop. */
async function stopIfThere(runtime: JobRuntime, { name, graceMs }: Effect<"stop">): Promise<void> {
  try {
    await runtime.stop(name, graceMs);
  } catch (reason) {
    const seen = await runtime.inspect(name);
    if (seen.kind !== "absent" && seen.kind !== "exited") throw reason;
  }
}
