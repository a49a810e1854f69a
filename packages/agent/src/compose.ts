// One program, three agents: what a build agent, a setup agent and an install agent are made of.

import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { rm, statfs } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type AgentKind, createSystemTimers } from "@exclave/api";
import {
  type ArtifactRef,
  asFailure,
  evaluateConfig,
  Failure,
  Instant,
  isTrustExpired,
  type Judgement,
  judgeCancel,
  judgeEnvelope,
  keysOfRole,
  nextTrust,
  openCheckpoint,
  refusePlainHttp,
  type SandboxRules,
  type TrustDocument,
} from "@exclave/core";
import {
  type Access,
  createRegistryClient,
  givenAccess,
  makePrivate,
  verifySignature,
} from "@exclave/oci";
import {
  createProcessRuntime,
  createTreeSeals,
  type JobRuntime,
  type ProcessRuntimeOptions,
} from "@exclave/runtime";
import { type Agent, startAgent } from "./agent.ts";
import { CLOCK_SKEW_MS } from "./core/agent-limits.ts";
import type { AgentRules } from "./core/agent-state.ts";
import { readIfThere } from "./durable-file.ts";
import { type Identity, keepIdentity, readIdentity } from "./identity/identity.ts";
import { joinServer, postJoin } from "./identity/join.ts";
import { keptJoiningKeys } from "./identity/joining-keys.ts";
import { createRegistryImages } from "./image/image-source.ts";
import { createPinnedRunner } from "./image/pinned-runner.ts";
import { publishImages, readShippedImages } from "./image/publish-images.ts";
import { createJobs } from "./job/jobs.ts";
import type { OwnInstall, Workplace } from "./job/prepare-job.ts";
import { createSpool } from "./job/spool.ts";
import type { Journal } from "./journal/journal.ts";
import { createSqliteJournal } from "./journal/sqlite-journal.ts";
import type { Log } from "./log.ts";
import { createNotices, type Notices } from "./notices.ts";
import {
  createFindStatement,
  type OwnStatements,
  type StatementSources,
} from "./release/find-statements.ts";
import { createReleaseGate, type ReleaseGate } from "./release/release-gate.ts";
import { type OwnRegistry, openOwnRegistry, readSandbox } from "./sandbox/sandbox.ts";
import { adoptTrust, readFromServer } from "./trust/adopt-trust.ts";
import { createTrustFile, readTrustFile, type TrustFile } from "./trust/trust-file.ts";
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
  /** The machine's search path, handed on to jobs. */
  readonly path: string;
  /** The journal was damaged while the agent ran: it has to start anew. */
  readonly onDamaged?: ((reason: unknown) => void) | undefined;
  readonly now: () => number;
  readonly random: () => number;
  readonly log: Log;
}

const JOBS_MAX = 8;
const DEBUG_JOBS_MAX = 4;
const RESUMES_MAX = 3;
const FREE_BYTES_MIN = 256 * 1024 * 1024;

export async function composeAgent(options: ComposeOptions): Promise<Agent> {
  const { kind, home, now, log, version, platform, random } = options;
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
    const places = await openPlace(options, identity, { journal, trust, notices });
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
    };
    const timers = createSystemTimers();
    const jobs = createJobs({ runtime, spool, journal, place, now, timers, log });
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
      ...(images !== undefined && {
        publish: (grant) => publishImages(images, grant, trust.current().origins),
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

export function agentRules(
  kind: AgentKind,
  identity: Identity,
  publishes: readonly string[],
  sandboxRules?: SandboxRules,
): AgentRules {
  const { audience } = identity;
  return {
    kind,
    judge: (envelope, { now: at, trust, lastIssueNo, seenAttempts }) => {
      const now = Instant.parse(at);
      if (isTrustExpired(trust, now)) return refuseExpired(trust);
      return judgeEnvelope({
        envelope,
        ...keysOfRole(trust, "director", now),
        verify: verifySignature,
        audience,
        now,
        clockSkewMs: CLOCK_SKEW_MS,
        lastIssueNo,
        seenAttempts,
        sandboxRules,
      });
    },
    judgeCancel: ({ envelope, job, attempt }, { now: at, trust }) => {
      const now = Instant.parse(at);
      return judgeCancel({
        envelope,
        ...keysOfRole(trust, "director", now),
        verify: verifySignature,
        audience,
        job,
        attempt,
        now,
        clockSkewMs: CLOCK_SKEW_MS,
      });
    },
    nextTrust: (current, envelope, now) =>
      nextTrust({ current, envelope, now: Instant.parse(now), verify: verifySignature }),
    openCheckpoint: (envelope, trust, now) =>
      openCheckpoint(envelope, {
        ...keysOfRole(trust, "checkpoint", Instant.parse(now)),
        verify: verifySignature,
      }),
    jobsMax: JOBS_MAX,
    debugJobsMax: DEBUG_JOBS_MAX,
    resumesMax: RESUMES_MAX,
    publishes: kind === "build" ? publishes : [],
  };
}

/** Nobody vouches any more for the keys of an expired document. */
function refuseExpired({ version, expiresAt }: TrustDocument): Judgement {
  const ended = new Date(expiresAt).toISOString();
  const because = `trust document ${version}, by which manifests are judged here, ended at ${ended}`;
  return { kind: "refused", code: "expired", because };
}

async function repositoriesOf(images: string | undefined): Promise<string[]> {
  const shipped = images === undefined ? [] : await readShippedImages(images);
  return [...new Set(shipped.map(({ repository }) => repository))];
}

/** The identity it has, or the one a join string gives it. The string is spent and then gone. */
async function becomeAgent(
  options: ComposeOptions,
  own: string,
  journal: Journal,
): Promise<{ readonly identity: Identity; readonly trust: TrustFile }> {
  const { kind, home, log, now } = options;
  const path = join(own, "identity.json");
  const trustPath = join(own, "trust.json");
  const joinFile = options.joinFile ?? join(home, "join");
  const known = await knownIdentity(options, path);
  const joinString = options.joinString ?? (await readIfThere(joinFile));
  if (joinString === undefined) {
    const trust = known && (await keptTrust(options, known, trustPath));
    if (known && trust) return { identity: known, trust };
    return awaitJoinString(options, joinFile, own, journal);
  }
  try {
    const { insecureHttp } = options;
    const keysPath = join(own, "joining.json");
    const keys = await keptJoiningKeys(keysPath, joinString);
    const request = { joinString, kind, insecureHttp, now: now(), keys, post: postJoin };
    const joined = await joinServer(request);
    const { identity } = joined;
    // The server knows nothing of what an earlier agent said from this journal.
    if (!journal.load().fresh) journal.commit([{ kind: "restart", journalId: randomUUID() }]);
    // Before the identity: who is an agent has a trust document.
    const trust = createTrustFile(trustPath, joined, now);
    await keepIdentity(path, identity);
    await rm(joinFile, { force: true });
    await rm(keysPath, { force: true });
    log.info("joined", { agent: identity.agent, audience: identity.audience });
    return { identity, trust };
  } catch (reason) {
    // A string that is spent or too old is no reason to give up who this agent is.
    if (!known || asFailure(reason).code !== "unauthenticated") throw reason;
    log.warn("the join string does not work; going on as before", { reason });
    await rm(joinFile, { force: true });
    return { identity: known, trust: await ownTrust(known, trustPath, now) };
  }
}

/** An install agent that lost its trust document waits for setup like one that never joined. */
async function keptTrust(
  { kind, now, log }: ComposeOptions,
  known: Identity,
  path: string,
): Promise<TrustFile | undefined> {
  try {
    return await ownTrust(known, path, now);
  } catch (reason) {
    if (kind !== "install" || asFailure(reason).code !== "unauthenticated") throw reason;
    log.error(asFailure(reason).message);
    return undefined;
  }
}

async function ownTrust(
  { keys: pinned, serverUrl }: Identity,
  path: string,
  now: () => number,
): Promise<TrustFile> {
  const kept = await readTrustFile(path, now);
  if (kept) return kept;
  if (!pinned) {
    const message = `${path} is missing: this agent does not know whom to trust and has to join anew`;
    throw new Failure("unauthenticated", message);
  }
  const adopted = await adoptTrust({ serverUrl, pinned, now: now(), read: readFromServer });
  return createTrustFile(path, adopted, now);
}

async function knownIdentity(
  { kind, home, log }: ComposeOptions,
  path: string,
): Promise<Identity | undefined> {
  let known: Identity | undefined;
  try {
    known = await readIdentity(path);
  } catch (reason) {
    if (kind !== "install") throw reason;
    log.error("the agent's identity is damaged", { reason });
  }
  if (known && known.kind !== kind) {
    throw new Failure("conflict", `${home} is the home of a ${known.kind} agent`);
  }
  return known;
}

/**
 * An install agent without an identity waits for setup to leave a join string: whoever keeps it up would
 * only start it again and again. The vendor's own agents end with the sentence.
 */
async function awaitJoinString(
  options: ComposeOptions,
  joinFile: string,
  own: string,
  journal: Journal,
): ReturnType<typeof becomeAgent> {
  const { kind, log } = options;
  const message = `this agent has not joined a server; ${joinFile} is missing`;
  if (kind !== "install") throw new Failure("unauthenticated", message);
  log.error(`${message}; \`exclave install setup NAME\` leaves one`);
  while ((await readIfThere(joinFile)) === undefined) await sleep(JOIN_LOOK_MS);
  return becomeAgent(options, own, journal);
}

const JOIN_LOOK_MS = 1_000;

interface Place {
  readonly runtime: JobRuntime;
  readonly install?: OwnInstall | undefined;
  /** What the customer's sandbox allows; the vendor's own agents have none. */
  readonly sandboxRules?: SandboxRules | undefined;
  readonly gate: ReleaseGate;
}

interface OwnMemory {
  readonly journal: Journal;
  readonly trust: Pick<TrustFile, "role" | "current">;
  /** Told of unpacked images that somebody changed. */
  readonly notices?: Notices | undefined;
}

/** Where this agent's jobs run, and for an install agent what is its install's own. */
export async function openPlace(
  options: Pick<ComposeOptions, "kind" | "home" | "path" | "now">,
  identity: Pick<Identity, "audience" | "install" | "app">,
  { journal, trust, notices }: OwnMemory,
): Promise<Place> {
  const { kind, home, path, now } = options;
  const memory = journal;
  const role = () => trust.role("release");
  const origins = () => trust.current().origins;
  const withVendor = openedByGrant(origins);
  if (kind !== "install") {
    const directory = join(home, "runtime");
    const find = createFindStatement({ memory, role, withVendor });
    return {
      runtime: createProcessRuntime({ directory, ...imagesIn(directory, notices, origins), path }),
      gate: createReleaseGate({ kind, memory, find }),
    };
  }
  const sandbox = await readSandbox(join(home, "sandbox.json"));
  const runtime = createProcessRuntime({
    directory: sandbox.runtime.directory,
    ...imagesIn(sandbox.runtime.directory, notices),
    path,
    ...(sandbox.run && { runDirectory: sandbox.run.directory }),
  });
  const keyPath = join(home, "registry", "token.key");
  const id = identity.audience;
  const name = identity.install ?? id;
  const registry = await openOwnRegistry({ sandbox, keyPath, install: id, name, now });
  const own = { share: registry, withRegistry: openedWith(registry) };
  const find = createFindStatement({ memory, role, own, withVendor });
  const { app } = identity;
  const gate = createReleaseGate({ kind, app, pinnedRunner: sandbox.runner, memory, find });
  const holds = holdsIn(registry.url);
  const runner = createPinnedRunner(join(home, "runner"), registry);
  const install = { id, name, registry, sandbox, holds, runner };
  return { runtime, install, gate, sandboxRules: sandbox };
}

/** The vendor's registry, as far as the server opened it for one job. */
function openedByGrant(origins: () => readonly string[]): StatementSources["withVendor"] {
  return async ({ registryUrl: url, token, credential }, read) => {
    const access = givenAccess({ token, credential });
    const client = createRegistryClient({ url, origins: origins(), ...access });
    try {
      return await read(client);
    } finally {
      client.close();
    }
  };
}

function openedWith(registry: OwnRegistry): OwnStatements["withRegistry"] {
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

function imagesIn(
  directory: string,
  notices: Notices | undefined,
  origins?: () => readonly string[],
): Pick<ProcessRuntimeOptions, "openImage" | "seals" | "onImageChanged"> {
  const seals = createTreeSeals();
  const baseLayers = join(directory, "base-layers");
  const onImageChanged = async (because: string) =>
    notices?.say({ code: "image_changed", because });
  const openImage = createRegistryImages({ baseLayers, seals, origins, onImageChanged });
  return { openImage, seals, onImageChanged };
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
