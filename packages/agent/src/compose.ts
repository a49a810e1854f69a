// One program, three agents: what a build agent, a setup agent and an install agent are made of.

import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { statfs } from "node:fs/promises";
import { join } from "node:path";
import { type AgentKind, createSystemTimers } from "@exclave/api";
import { evaluateConfig, refusePlainHttp } from "@exclave/core";
import { makePrivate, type ProxyVariables, type ServerDoor } from "@exclave/machine";
import { type Agent, startAgent } from "./agent.ts";
import { agentRules } from "./agent-rules.ts";
import { CLOCK_SKEW_MS } from "./core/agent-limits.ts";
import { becomeAgent, certificatePathIn } from "./identity/become-agent.ts";
import { openCertificateFile } from "./identity/certificate-file.ts";
import { openServerAuthorities } from "./identity/server-authorities.ts";
import { publishImages, readShippedImages } from "./image/publish-images.ts";
import { createJobs } from "./job/jobs.ts";
import { openKeptOutputs } from "./job/kept-output.ts";
import type { Workplace } from "./job/prepare-job.ts";
import { createSpool } from "./job/spool.ts";
import { createSqliteJournal } from "./journal/sqlite-journal.ts";
import { createDial } from "./link/dial-server.ts";
import { openLink } from "./link/link-client.ts";
import type { Log } from "./log.ts";
import { createNotices } from "./notices.ts";
import { openPlace } from "./place.ts";
import type { ClusterPlace } from "./sandbox/cluster-place.ts";
import { createSealedVault } from "./vault/vault.ts";
import { createVaultedJournal } from "./vault/vaulted-journal.ts";

export interface ComposeOptions {
  readonly kind: AgentKind;
  readonly home: string;
  /** Read from standard input; otherwise the join file is looked at. */
  readonly joinString?: string | undefined;
  readonly joinFile?: string | undefined;
  /** Configuration by type of sandbox, where an install gives none; for a setup agent. */
  readonly sandboxDefaults?: Workplace["sandboxDefaults"];
  /** A layout of images to publish; for a build agent. */
  readonly images?: string | undefined;
  readonly version: string;
  readonly platform: string;
  /** Plain HTTP beyond loopback was asked for in so many words. */
  readonly insecureHttp?: boolean | undefined;
  /** What the machine's network wants in front of the server. */
  readonly proxy?: ProxyVariables | undefined;
  /** The machine's search path, handed on to jobs. */
  readonly path: string;
  /** The journal was damaged while the agent ran: it has to start anew. */
  readonly onDamaged?: ((reason: unknown) => void) | undefined;
  /** The cluster this agent lives in, where it does. */
  readonly cluster?: ClusterPlace | undefined;
  readonly now: () => number;
  readonly random: () => number;
  readonly log: Log;
}

const FREE_BYTES_MIN = 256 * 1024 * 1024;

export async function composeAgent(options: ComposeOptions): Promise<Agent> {
  const { kind, home, now, log, version, platform, random, proxy } = options;
  const own = join(home, "agent");
  for (const place of [own, join(home, "vault"), join(home, "spool")]) await makePrivate(place);
  const identityPath = join(own, "identity.json");
  const alarms: string[] = [];
  const journal = createVaultedJournal({
    journal: createSqliteJournal({
      path: join(own, "journal.db"),
      onDamaged: (because) => {
        alarms.push(because);
        log.error(because);
      },
    }),
    vault: createSealedVault({
      directory: join(home, "vault"),
      keyPath: join(own, "vault.key"),
      log,
    }),
    // An agent that has an identity has lived before.
    ...(existsSync(identityPath) && { lostBefore: now() - CLOCK_SKEW_MS }),
    log,
  });
  try {
    const { identity, trust } = await becomeAgent(options, own, journal);
    refusePlainHttp(identity.serverUrl, options.insecureHttp ?? false);
    const notices = createNotices();
    const authorities = await openServerAuthorities(
      join(own, "server-authorities.json"),
      identity.serverCa,
    );
    const ca = () => authorities.current();
    const places = await openPlace(options, { ...identity, ca }, { journal, trust, notices });
    const { runtime, install, gate, sandboxRules } = places;
    const spool = createSpool({ directory: join(home, "spool") });
    const limits = sandboxRules?.limits;
    const { sandboxDefaults } = options;
    const place: Workplace = {
      own: install,
      gate,
      journal,
      limits,
      evaluate: evaluateConfig,
      sandboxDefaults,
      origins: () => trust.current().origins,
      get ca() {
        return ca();
      },
    };
    const certificate = await openCertificateFile(certificatePathIn(own), identity.identityKey);
    const door = (): ServerDoor => {
      const cert = certificate.current();
      const shown = cert === undefined ? undefined : { cert, key: identity.identityKey };
      return { ca: ca(), proxy, own: shown };
    };
    const timers = createSystemTimers();
    const kept = await openKeptOutputs(runtime, join(home, "output"));
    const jobs = createJobs({ runtime, spool, kept, journal, place, now, timers, log });
    const { images } = options;
    const agent = await startAgent({
      identity,
      version,
      platform,
      bootId: randomUUID(),
      rules: agentRules(kind, identity, await repositoriesOf(images), sandboxRules),
      trust,
      journal,
      runtime,
      spool,
      jobs,
      freeBytes: () => freeBytesAt(home),
      freeBytesMin: FREE_BYTES_MIN,
      alarms,
      notices,
      insecureHttp: options.insecureHttp,
      ...(options.onDamaged && { onDamaged: options.onDamaged }),
      timers,
      certificate,
      authorities,
      link: (wishes) => openLink({ ...wishes, dial: createDial(door) }),
      ...(images !== undefined && {
        publish: (grant) =>
          publishImages(images, grant, { origins: trust.current().origins, ca: ca() }),
      }),
      now,
      random,
      log,
    });
    return {
      async stop() {
        await agent.stop();
        journal.close();
      },
    };
  } catch (reason) {
    journal.close();
    throw reason;
  }
}

async function freeBytesAt(directory: string): Promise<number> {
  const { bavail, bsize } = await statfs(directory);
  return bavail * bsize;
}

async function repositoriesOf(images: string | undefined): Promise<string[]> {
  const shipped = images === undefined ? [] : await readShippedImages(images);
  return [...new Set(shipped.map(({ repository }) => repository))];
}
