// What the end of a job changes in the rows it was about. The meaning of an end is decided in core;
// here it meets the rows: the build that is now there, the sandbox, the install's registry, the
// component.

import {
  type ArtifactLine,
  ArtifactRef,
  type ComponentPurpose,
  countComponentFailure,
  type Deployed,
  type Digest,
  endComponentJob,
  endLook,
  endSandboxJob,
  endSync,
  forgetSynced,
  type InstallId,
  type Instant,
  type JobFailure,
  recordHealth,
  unreachable,
} from "@exclave/core";
import { emptyComponent } from "../install/empty-component.ts";
import type { ComponentRow, InstallRow, JobRow } from "../store/rows.ts";
import type { AgentEventFacts, AgentEventWrites } from "./agent-event-writes.ts";

/** The event is absent when the job ended without any agent having heard of it. */
export type EndFacts = Pick<AgentEventFacts, "now" | "install" | "component"> &
  Partial<Pick<AgentEventFacts, "event">>;

export function consequences(
  facts: EndFacts,
  job: JobRow,
  failure: JobFailure | undefined,
): Partial<AgentEventWrites> {
  const { purpose } = job;
  switch (purpose.kind) {
    case "build":
    case "assemble":
      return failure ? {} : keepBuild(facts, job, purpose.buildKey);
    case "request":
      return failure ? requestFailed(facts, failure) : statusSeen(facts);
    case "sandbox-status":
      return sandboxSeen(facts, failure);
    case "setup":
    case "teardown":
      return settleSandbox(facts, job, purpose.kind, failure);
    case "sync":
      return settleSync(facts, job, purpose, failure);
    case "plan":
    case "apply":
    case "destroy":
      return settleComponent(facts, job, purpose, failure);
    default:
      return unreachable(purpose);
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

/** A look that failed says nothing, and is repeated after its pause. */
function sandboxSeen(
  { install, event, now }: EndFacts,
  failure: JobFailure | undefined,
): Partial<AgentEventWrites> {
  if (!install) return {};
  const result = event?.type === "job_ended" && !failure ? event.result : undefined;
  const { health, because = "" } = result ?? {};
  const seen = health === undefined ? undefined : { health, because };
  return { install: bump(endLook(install, { at: now, seen })) };
}

function settleSandbox(
  { install, now }: EndFacts,
  { reads, release }: JobRow,
  kind: "setup" | "teardown",
  failure: JobFailure | undefined,
): Partial<AgentEventWrites> {
  if (!install) return {};
  const ended = endSandboxJob(install, { kind, at: now, failure, reads, release });
  const setUpAt = kind === "setup" ? now : install.setUpAt;
  const after = bump(failure ? ended : { ...ended, setupWanted: null, setUpAt });
  if (failure || kind === "setup") return { install: after };
  const details = {
    name: install.name,
    because: "everything in it and the sandbox itself were taken down",
  };
  return {
    install: after,
    audit: [{ at: now, actor: "server", action: "install.sealed", subject: install.id, details }],
  };
}

function settleSync(
  { install, event, now }: EndFacts,
  { id: job, release }: JobRow,
  { key, materials }: Extract<JobRow["purpose"], { kind: "sync" }>,
  failure: JobFailure | undefined,
): Partial<AgentEventWrites> {
  if (!install) return {};
  const after = bump(endSync(install, { key, materials, at: now, failure }));
  if (failure) return { install: after };
  const artifacts = event?.type === "job_ended" ? event.artifacts.map(syncedArtifact) : [];
  const details = { name: install.name, job, release, artifacts };
  return {
    install: after,
    audit: [{ at: now, actor: "server", action: "install.synced", subject: install.id, details }],
  };
}

/** What was synced, how much of it had to be moved, and how long that took. */
function syncedArtifact(artifact: ArtifactLine): Omit<ArtifactLine, "type"> {
  const { name, repository, digest, sizeBytes, copiedBytes, durationMs } = artifact;
  return { name, repository, digest, sizeBytes, copiedBytes, durationMs };
}

function settleComponent(
  { install, component: known, event, now }: EndFacts,
  job: JobRow,
  purpose: ComponentPurpose<Deployed>,
  failure: JobFailure | undefined,
): Partial<AgentEventWrites> {
  if (!install || job.component === null) return {};
  const component = known ?? newComponent(install.id, job.component, purpose);
  const ended = event?.type === "job_ended" ? event : undefined;
  const after = endComponentJob<Deployed, ComponentRow>(component, {
    purpose,
    at: now,
    failure,
    plan: job.plan ?? undefined,
    outputs: ended?.outputs,
    outputsDigest: ended?.outputsDigest,
  });
  if (after) {
    const isGone = failure?.code === "not_synced";
    return { install: bump(isGone ? forgetSynced(install) : install), components: [after] };
  }
  const allowDestroy = install.allowDestroy.filter((name) => name !== component.name);
  const removedComponent = { install: install.id, name: component.name };
  return { install: bump({ ...install, allowDestroy }), removedComponent };
}

function requestFailed(
  { install, component, now }: EndFacts,
  failure: JobFailure,
): Partial<AgentEventWrites> {
  if (install && failure.code === "not_synced") return { install: bump(forgetSynced(install)) };
  const lost = install && component && outputsLost(component, failure, now);
  return lost ? { install: bump(install), components: [lost] } : {};
}

/** A look that cannot be taken for want of another's outputs counts like a deploy that cannot. */
export function outputsLost(
  component: ComponentRow,
  failure: JobFailure,
  at: Instant,
): ComponentRow | undefined {
  const { deployed, lastFailure } = component;
  if (!deployed || failure.code !== "outputs_lost") return undefined;
  const counted = countComponentFailure(lastFailure, "apply", deployed.deployKey, failure, at);
  return { ...component, lastFailure: counted };
}

function statusSeen({ event, component, install, now }: EndFacts): Partial<AgentEventWrites> {
  const result = event?.type === "job_ended" ? event.result : undefined;
  if (!component || !install || !result?.health) return {};
  const { health, because, drift } = result;
  const source = "job" as const;
  const news = { health, because: because ?? "", drift: drift ?? null, source, at: now };
  return { install: bump(install), components: [recordHealth(component, news)] };
}

function newComponent(
  install: InstallId,
  name: string,
  purpose: ComponentPurpose<Deployed>,
): ComponentRow {
  const type =
    purpose.kind === "apply" ? purpose.deployed.type : purpose.kind === "plan" ? purpose.type : "";
  return emptyComponent(install, name, type);
}

/** Whatever is written to an install counts as a change of it. */
export function bump(install: InstallRow): InstallRow {
  return { ...install, revision: install.revision + 1 };
}
