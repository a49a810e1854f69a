// One program, three agents: what a build agent, a setup agent and an install agent are made of.

import { randomUUID } from "node:crypto";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { AgentKind } from "@exclave/api";
import { type ArtifactRef, evaluateConfig, Failure, Instant, judgeEnvelope } from "@exclave/core";
import { type Access, createRegistryClient } from "@exclave/oci";
import { createProcessRuntime, type ImageSource, type JobRuntime } from "@exclave/runtime";
import { type Agent, startAgent } from "./agent.ts";
import { type CheckReleased, createCheckReleased } from "./check-released.ts";
import type { AgentRules } from "./core/agent-state.ts";
import { readIfThere } from "./durable-file.ts";
import { type Identity, keepIdentity, readIdentity, verifyEd25519 } from "./identity.ts";
import { createRegistryImages } from "./image-source.ts";
import { createJobs } from "./jobs.ts";
import { joinServer, postJoin } from "./join.ts";
import type { Journal } from "./journal/journal.ts";
import { createSqliteJournal } from "./journal/sqlite-journal.ts";
import type { Log } from "./log.ts";
import type { OwnInstall, Workplace } from "./prepare-job.ts";
import { publishImages, readShippedImages } from "./publish-images.ts";
import { type OwnRegistry, openOwnRegistry, readSandbox } from "./sandbox.ts";
import { createSpool } from "./spool.ts";

export interface ComposeOptions {
  readonly kind: AgentKind;
  readonly home: string;
  /** Given on the command line; otherwise the home's `join` file is looked at. */
  readonly joinString?: string | undefined;
  readonly joinFile?: string | undefined;
  /** A layout of images to publish; for a build agent. */
  readonly images?: string | undefined;
  readonly version: string;
  readonly platform: string;
  /** The machine's search path, handed on to jobs. */
  readonly path: string;
  readonly now: () => number;
  readonly random: () => number;
  readonly log: Log;
}

const CLOCK_SKEW_MS = 60_000;
const JOBS_MAX = 8;
const RESUMES_MAX = 3;
const FREE_BYTES_MIN = 256 * 1024 * 1024;

export async function composeAgent(options: ComposeOptions): Promise<Agent> {
  const { kind, home, path, now, log, version, platform, random } = options;
  const own = join(home, "agent");
  const journal = createSqliteJournal({ path: join(own, "journal.db") });
  try {
    const identity = await becomeAgent(options, join(own, "identity.json"), journal);
    const { runtime, install } = await openPlace(options, identity);
    const spool = createSpool({ directory: join(home, "spool") });
    const place: Workplace = { own: install, journal, path, evaluate: evaluateConfig };
    const jobs = createJobs({ runtime, spool, journal, place, now, log });
    const { images } = options;
    const agent = await startAgent({
      identity,
      version,
      platform,
      bootId: randomUUID(),
      rules: agentRules(kind, identity, await repositoriesOf(images)),
      journal,
      runtime,
      spool,
      jobs,
      home,
      freeBytesMin: FREE_BYTES_MIN,
      ...(images !== undefined && { publish: (grant) => publishImages(images, grant) }),
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

export function agentRules(
  kind: AgentKind,
  identity: Identity,
  publishes: readonly string[],
): AgentRules {
  const keys = [identity.keys.director];
  const { audience } = identity;
  return {
    kind,
    judge: (envelope, { now, lastIssueNo, seenAttempts }) =>
      judgeEnvelope({
        envelope,
        keys,
        verify: verifyEd25519,
        audience,
        now: Instant.parse(now),
        clockSkewMs: CLOCK_SKEW_MS,
        lastIssueNo,
        seenAttempts,
      }),
    jobsMax: JOBS_MAX,
    resumesMax: RESUMES_MAX,
    publishes: kind === "build" ? publishes : [],
  };
}

async function repositoriesOf(images: string | undefined): Promise<string[]> {
  const shipped = images === undefined ? [] : await readShippedImages(images);
  return [...new Set(shipped.map(({ repository }) => repository))];
}

/** The identity it has, or the one a join string gives it. The string is spent and then gone. */
async function becomeAgent(
  options: ComposeOptions,
  path: string,
  journal: Journal,
): Promise<Identity> {
  const { kind, home, log } = options;
  const joinFile = options.joinFile ?? join(home, "join");
  const known = await readIdentity(path);
  if (known) {
    if (known.kind === kind) return known;
    throw new Failure("conflict", `${home} is the home of a ${known.kind} agent`);
  }
  const joinString = options.joinString ?? (await readIfThere(joinFile));
  if (joinString === undefined) {
    throw new Failure(
      "unauthenticated",
      `this agent has not joined a server; ${joinFile} is missing`,
    );
  }
  const identity = await joinServer({ joinString, kind, post: postJoin });
  // The server knows nothing of what an earlier agent said from this journal.
  if (!journal.load().fresh) journal.commit([{ kind: "restart", journalId: randomUUID() }]);
  await keepIdentity(path, identity);
  await rm(joinFile, { force: true });
  log.info("joined", { agent: identity.agent, audience: identity.audience });
  return identity;
}

interface Place {
  readonly runtime: JobRuntime;
  readonly install?: OwnInstall | undefined;
}

/** Where this agent's jobs run, and for an install agent what is its install's own. */
export async function openPlace(
  options: Pick<ComposeOptions, "kind" | "home" | "path" | "now">,
  identity: Pick<Identity, "audience" | "keys">,
): Promise<Place> {
  const { kind, home, path, now } = options;
  if (kind !== "install") {
    const directory = join(home, "runtime");
    return { runtime: createProcessRuntime({ directory, openImage: imagesIn(directory), path }) };
  }
  const sandbox = await readSandbox(join(home, "sandbox.json"));
  const runtime = createProcessRuntime({
    directory: sandbox.runtime.directory,
    openImage: imagesIn(sandbox.runtime.directory),
    path,
    ...(sandbox.run && { runDirectory: sandbox.run.directory }),
  });
  const keyPath = join(home, "registry", "token.key");
  const name = identity.audience;
  const registry = await openOwnRegistry({ sandbox, keyPath, install: name, now });
  const releaseKey = identity.keys.release.spki;
  const released = createCheckReleased({
    releaseKey,
    share: registry,
    withRegistry: openedWith(registry),
  });
  const holds = holdsIn(registry.url);
  return { runtime, install: { name, registry, sandbox, holds, released, releaseKey } };
}

function openedWith(registry: OwnRegistry): CheckReleased["withRegistry"] {
  return async (repositories, read) => {
    const access = repositories.map(
      (name): Access => ({ type: "repository", name, actions: ["pull"] }),
    );
    const client = createRegistryClient({
      url: registry.url,
      token: await registry.token(access),
    });
    try {
      return await read(client);
    } finally {
      client.close();
    }
  };
}

function imagesIn(directory: string): ImageSource {
  return createRegistryImages({ baseLayers: join(directory, "base-layers") });
}

function holdsIn(url: string): OwnInstall["holds"] {
  return async ({ repository, digest }: ArtifactRef, token: string) => {
    const client = createRegistryClient({ url, token });
    try {
      return (await client.headManifest(repository, digest)) !== undefined;
    } finally {
      client.close();
    }
  };
}
