// What the end of a job means for the thing it was about: the build that is now there, the sandbox,
// the install's registry, the component.

import type { RejectCode } from "@exclave/api";
import {
  type ArtifactLine,
  ArtifactRef,
  type Digest,
  type FailureCode,
  type Instant,
  type JobEvent,
  unreachable,
} from "@exclave/core";
import { emptyComponent } from "../install/empty-component.ts";
import type {
  ComponentRow,
  FailedAttempts,
  InstallRow,
  JobRow,
  LastFailure,
} from "../store/rows.ts";
import type { AgentEventFacts, AgentEventWrites } from "./apply-agent-event.ts";

export const RUNNER_REPOSITORY = "exclave/runner";

/** Moves that end a job. */
export type Settling = Extract<JobEvent, { type: "reject" | "end" | "abandon" }>;

/** The event is absent when the job ended without any agent having heard of it. */
export type EndFacts = Pick<AgentEventFacts, "now" | "install" | "component"> &
  Partial<Pick<AgentEventFacts, "event">>;

/** What the end of a job means for the thing it was about. */
export function consequences(
  facts: EndFacts,
  job: JobRow,
  failure: Failed | undefined,
): Partial<AgentEventWrites> {
  const { about } = job;
  switch (about.kind) {
    case "build":
    case "assemble":
      return failure ? {} : keepBuild(facts, job, about.buildKey);
    case "request":
      return failure ? askedInVain(facts, failure) : statusSeen(facts);
    case "setup":
    case "teardown":
      return settleSandbox(facts, job, failure);
    case "sync":
      return settleSync(facts, job, about, failure);
    case "plan":
    case "apply":
    case "destroy":
      return settleComponent(facts, job, failure);
    default:
      return unreachable(about);
  }
}

function keepBuild(facts: EndFacts, job: JobRow, buildKey: Digest): Partial<AgentEventWrites> {
  const artifacts = facts.event?.type === "job_ended" ? facts.event.artifacts : [];
  // The last one is the runner's own word; whatever a plugin names before, it is not believed.
  const made = artifacts.findLast(({ repository }) => job.writes.includes(repository));
  if (!made) return {};
  const artifact = ArtifactRef.parse({ repository: made.repository, digest: made.digest });
  const { sizeBytes } = made;
  const sized = sizeBytes === undefined ? {} : { sizeBytes };
  return { build: { buildKey, artifact, ...sized, job: job.id, at: facts.now } };
}

function settleSandbox(
  { install, now }: EndFacts,
  job: JobRow,
  failure: Failed | undefined,
): Partial<AgentEventWrites> {
  if (!install) return {};
  if (failure) {
    const sandboxFailure = nextFailure(install.sandboxFailure, undefined, failure, now);
    return { install: bump({ ...install, sandboxFailure }) };
  }
  if (job.about.kind === "setup") return { install: bump(seededInstall(install, job)) };
  const details = { because: "everything in it and the sandbox itself were taken down" };
  return {
    install: bump({ ...install, sandboxState: "destroyed", sandboxFailure: null }),
    audit: [{ at: now, actor: "server", action: "install.sealed", subject: install.name, details }],
  };
}

/** Setup leaves a registry with the runner in it, and nothing else. */
function seededInstall(install: InstallRow, job: JobRow): InstallRow {
  const runner = job.reads.find(({ repository }) => repository === RUNNER_REPOSITORY) ?? null;
  const synced = runner ? [runner] : [];
  return { ...install, sandboxState: "present", sandboxFailure: null, synced, runner };
}

function settleSync(
  { install, event, now }: EndFacts,
  { id: job, release }: JobRow,
  about: Extract<JobRow["about"], { kind: "sync" }>,
  failure: Failed | undefined,
): Partial<AgentEventWrites> {
  if (!install) return {};
  // What a sync that failed has brought was checked by nobody; it is not moved again, but looked at.
  const brought = failure ? [] : about.materials;
  const synced = new Map([...install.synced, ...brought].map((ref) => [refKey(ref), ref]));
  const runner = brought.find(({ repository }) => repository === RUNNER_REPOSITORY);
  const artifacts = event?.type === "job_ended" ? event.artifacts.map(syncedArtifact) : [];
  const details = { job, release, artifacts };
  return {
    ...(failure
      ? {}
      : {
          audit: [
            { at: now, actor: "server", action: "install.synced", subject: install.name, details },
          ],
        }),
    install: bump({
      ...install,
      synced: [...synced.values()],
      runner: runner ?? install.runner,
      syncFailure: failure ? nextFailure(install.syncFailure, about.key, failure, now) : null,
    }),
  };
}

/**
 * Something that was brought once is gone: the registry was restored, or cleaned by somebody. All of
 * it is looked for again by the next sync, which moves only what is missing.
 */
export function lookAgain(install: InstallRow): InstallRow {
  return { ...install, synced: install.runner ? [install.runner] : [] };
}

/** What was brought, how much of it had to be moved, and how long that took. */
function syncedArtifact(artifact: ArtifactLine): Omit<ArtifactLine, "type"> {
  const { name, repository, digest, sizeBytes, copiedBytes, durationMs } = artifact;
  return { name, repository, digest, sizeBytes, copiedBytes, durationMs };
}

function refKey({ repository, digest }: ArtifactRef): string {
  return `${repository}@${digest}`;
}

function settleComponent(
  facts: EndFacts,
  job: JobRow,
  failure: Failed | undefined,
): Partial<AgentEventWrites> {
  const { install, now } = facts;
  if (!install || job.component === null) return {};
  const component = facts.component ?? newComponent(install.name, job);
  const changed = { install: bump(failure?.code === "not_synced" ? lookAgain(install) : install) };
  if (failure) {
    const lastFailure = nextComponentFailure(component.lastFailure, job, failure, now);
    // A plan that could not be applied is spent: the world has moved, or it is only half done.
    const plan = job.about.kind === "apply" ? null : component.plan;
    return { ...changed, component: { ...component, plan, lastFailure } };
  }
  const { about } = job;
  switch (about.kind) {
    case "plan": {
      const plan = job.plan && { ...job.plan, deployKey: about.deployKey, at: now };
      return { ...changed, component: { ...component, plan, lastFailure: null } };
    }
    case "apply":
      return { ...changed, component: appliedComponent(facts, component, about.deployed) };
    case "destroy": {
      const allowDestroy = install.allowDestroy.filter((name) => name !== component.name);
      const removedComponent = { install: install.name, name: component.name };
      return { install: bump({ ...install, allowDestroy }), removedComponent };
    }
    default:
      return {};
  }
}

function appliedComponent(
  { event }: EndFacts,
  component: ComponentRow,
  deployed: NonNullable<ComponentRow["deployed"]>,
): ComponentRow {
  const ended = event?.type === "job_ended" ? event : undefined;
  const shown = (ended?.outputs ?? []).filter(({ sensitive }) => !sensitive);
  return {
    ...component,
    type: deployed.type,
    deployed,
    attempted: null,
    plan: null,
    lastFailure: null,
    outputs: Object.fromEntries(shown.map(({ name, value }) => [name, value])),
    outputsDigest: ended?.outputsDigest ?? null,
    health: component.deployed?.deployKey === deployed.deployKey ? component.health : "unknown",
    healthBecause: "applied, and not looked at yet",
    drift: null,
  };
}

function askedInVain({ install }: EndFacts, { code }: Failed): Partial<AgentEventWrites> {
  return install && code === "not_synced" ? { install: bump(lookAgain(install)) } : {};
}

function statusSeen({ event, component, install }: EndFacts): Partial<AgentEventWrites> {
  const result = event?.type === "job_ended" ? event.result : undefined;
  if (!component || !install || !result?.health) return {};
  const { health, because, drift } = result;
  const seen = { health, healthBecause: because ?? "", drift: drift ?? null };
  return { install: bump(install), component: { ...component, ...seen } };
}

export interface Failed {
  readonly code: FailureCode;
  readonly message: string;
}

export function failureOf(move: Settling): Failed | undefined {
  if (move.type === "reject") {
    return { code: rejectedCode(move.code as RejectCode), message: move.because };
  }
  if (move.type === "abandon") return { code: "lost", message: move.because };
  switch (move.outcome.kind) {
    case "succeeded":
      return undefined;
    case "failed":
      return { code: move.outcome.code, message: move.outcome.message };
    case "cancelled":
      return { code: "cancelled", message: "somebody asked for it to stop" };
    case "unknown":
      return { code: "lost", message: move.outcome.because };
    default:
      return unreachable(move.outcome);
  }
}

function rejectedCode(code: RejectCode): FailureCode {
  return code === "stale_attempt" ? "replayed" : code;
}

/** Attempts count as long as the same thing is tried; something new starts from one. */
function nextFailure(
  last: FailedAttempts | null,
  key: Digest | undefined,
  { code, message }: Failed,
  at: Instant,
): FailedAttempts {
  const attempts = last && last.key === key ? last.attempts + 1 : 1;
  return { code, message, at, attempts, ...(key === undefined ? {} : { key }) };
}

function nextComponentFailure(
  last: LastFailure | null,
  job: JobRow,
  failure: Failed,
  at: Instant,
): LastFailure {
  const operation = job.about.kind as LastFailure["operation"];
  const same = last?.operation === operation ? last : null;
  return { ...nextFailure(same, deployKeyOf(job), failure, at), operation };
}

function deployKeyOf({ about }: JobRow): Digest | undefined {
  if (about.kind === "plan") return about.deployKey;
  return about.kind === "apply" ? about.deployed.deployKey : undefined;
}

function newComponent(install: string, { about, component }: JobRow): ComponentRow {
  const type =
    about.kind === "apply" ? about.deployed.type : about.kind === "plan" ? about.type : "";
  return emptyComponent(install, component ?? "", type);
}

/** Whatever is written to an install counts as a change of it. */
export function bump(install: InstallRow): InstallRow {
  return { ...install, revision: install.revision + 1 };
}
