// What a committed agent event changes, decided without touching anything: the job it speaks of,
// the component or install behind that job, what goes on record, and who should look again.

import type { AgentEvent, RejectCode } from "@exclave/api";
import {
  ArtifactRef,
  type AuditEntry,
  advanceJob,
  Digest,
  type FailureCode,
  type Instant,
  isSettled,
  type JobEvent,
  PluginDescriptor,
  unreachable,
} from "@exclave/core";
import { z } from "zod";
import { emptyComponent } from "../install/empty-component.ts";
import type {
  BuildRow,
  ComponentRow,
  FailedAttempts,
  ImageRow,
  InstallRow,
  JobRow,
  LastFailure,
} from "../store/rows.ts";

export const RUNNER_REPOSITORY = "exclave/runner";

export interface AgentEventFacts {
  readonly event: AgentEvent;
  readonly agent: string;
  readonly audience: string;
  readonly now: Instant;
  /** The job the event names, if it is one of this audience. */
  readonly job?: JobRow | undefined;
  /** Jobs of this audience that are with the agent: what an inventory is compared with. */
  readonly open?: readonly JobRow[];
  /** Of those, the ones whose offer is still in the outbox: the agent never had them. */
  readonly undelivered?: ReadonlySet<string>;
  readonly install?: InstallRow | undefined;
  /** The component the event is about, if it has a row. */
  readonly component?: ComponentRow | undefined;
}

/** Everything to be written in the transaction that commits the event. */
export interface AgentEventWrites {
  readonly jobs: readonly JobRow[];
  readonly install?: InstallRow;
  readonly component?: ComponentRow;
  readonly removedComponent?: { readonly install: string; readonly name: string };
  readonly build?: BuildRow;
  readonly images: readonly ImageRow[];
  readonly audit: readonly AuditEntry[];
  readonly wake: {
    readonly install?: string;
    readonly releases?: boolean;
    readonly allInstalls?: boolean;
  };
}

export function applyAgentEvent(facts: AgentEventFacts): AgentEventWrites {
  const { event } = facts;
  switch (event.type) {
    case "job_accepted":
      return moveJob(facts, { type: "accept", at: facts.now });
    case "job_started":
      return moveJob(facts, { type: "start", at: facts.now });
    case "job_rejected": {
      const { code, because } = event;
      return settleJob(facts, { type: "reject", at: facts.now, code, because });
    }
    case "job_ended":
      return settleJob(facts, { type: "end", at: facts.now, outcome: event.outcome });
    case "health":
      return applyHealth(facts, event);
    case "inventory":
      return applyInventory(facts, event);
    case "images_published":
      return applyImages(facts, event);
    case "alarm":
      return writes({ audit: [record(facts, "agent.alarm", facts.agent, { ...event })] });
    default:
      return unreachable(event);
  }
}

function moveJob(facts: AgentEventFacts, move: JobEvent): AgentEventWrites {
  const { job, event } = facts;
  if (!job) return strayEvent(facts);
  const state = advanceJob(job.state, move);
  // Late news of a job that is further along: nothing to change, and no harm.
  if (!state) return writes({});
  const startedAt = move.type === "start" ? facts.now : job.startedAt;
  return writes({
    jobs: [{ ...job, state, startedAt }],
    audit: [record(facts, event.type.replace("job_", "job."), job.id, jobDetails(job))],
    wake: wakeFor(job),
  });
}

type Settling = Extract<JobEvent, { type: "reject" | "end" | "abandon" }>;

function settleJob(facts: AgentEventFacts, move: Settling): AgentEventWrites {
  const { job, event } = facts;
  if (!job) return strayEvent(facts);
  if (isAnotherAttempt(job, event)) return strayEvent(facts);
  const state = advanceJob(job.state, move);
  if (!state) return writes({});

  const ended = event.type === "job_ended" ? event : undefined;
  const failure = failureOf(move);
  const settled: JobRow = {
    ...job,
    state,
    endedAt: facts.now,
    failure: failure ?? null,
    exitCode: ended?.result?.exitCode ?? null,
    plan: ended?.result?.plan ?? null,
    log: ended ? { bytes: ended.logBytes, sha256: ended.logSha256 } : { bytes: 0, sha256: "" },
    logComplete: (ended?.logBytes ?? 0) === 0,
  };
  const effect = consequences(facts, settled, failure);
  const action = move.type === "reject" ? "job.rejected" : "job.ended";
  const details = {
    ...jobDetails(job),
    outcome: state.status,
    ...(failure ? { failure } : {}),
    ...(ended ? { artifacts: ended.artifacts, log: settled.log } : {}),
  };
  return writes({
    jobs: [settled],
    ...effect,
    audit: [record(facts, action, job.id, details), ...(effect.audit ?? [])],
    wake: wakeFor(job),
  });
}

/** What the end of a job means for the thing it was about. */
function consequences(
  facts: AgentEventFacts,
  job: JobRow,
  failure: Failed | undefined,
): Partial<AgentEventWrites> {
  const { about } = job;
  switch (about.kind) {
    case "build":
    case "assemble":
      return failure ? {} : keepBuild(facts, job, about.buildKey);
    case "request":
      return failure ? {} : statusSeen(facts);
    case "setup":
    case "teardown":
      return settleSandbox(facts, job, failure);
    case "sync":
      return settleSync(facts, about, failure);
    case "plan":
    case "apply":
    case "destroy":
      return settleComponent(facts, job, failure);
    default:
      return unreachable(about);
  }
}

function keepBuild(
  facts: AgentEventFacts,
  job: JobRow,
  buildKey: Digest,
): Partial<AgentEventWrites> {
  const made = facts.event.type === "job_ended" ? facts.event.artifacts[0] : undefined;
  if (!made) return {};
  const artifact = ArtifactRef.parse({ repository: made.repository, digest: made.digest });
  return { build: { buildKey, artifact, job: job.id, at: facts.now } };
}

function settleSandbox(
  { install, now }: AgentEventFacts,
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
  { install, event, now }: AgentEventFacts,
  about: Extract<JobRow["about"], { kind: "sync" }>,
  failure: Failed | undefined,
): Partial<AgentEventWrites> {
  if (!install) return {};
  // A sync that failed half way still brought what it says it brought.
  const reported = event.type === "job_ended" ? event.artifacts.map(refKey) : [];
  const brought = failure
    ? about.materials.filter((material) => reported.includes(refKey(material)))
    : about.materials;
  const synced = new Map([...install.synced, ...brought].map((ref) => [refKey(ref), ref]));
  const runner = brought.find(({ repository }) => repository === RUNNER_REPOSITORY);
  return {
    install: bump({
      ...install,
      synced: [...synced.values()],
      runner: runner ?? install.runner,
      syncFailure: failure ? nextFailure(install.syncFailure, about.key, failure, now) : null,
    }),
  };
}

function refKey({ repository, digest }: ArtifactRef): string {
  return `${repository}@${digest}`;
}

function settleComponent(
  facts: AgentEventFacts,
  job: JobRow,
  failure: Failed | undefined,
): Partial<AgentEventWrites> {
  const { install, now } = facts;
  if (!install || job.component === null) return {};
  const component = facts.component ?? newComponent(install.name, job);
  const changed = { install: bump(install) };
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
  { event }: AgentEventFacts,
  component: ComponentRow,
  deployed: NonNullable<ComponentRow["deployed"]>,
): ComponentRow {
  const ended = event.type === "job_ended" ? event : undefined;
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

function statusSeen({ event, component, install }: AgentEventFacts): Partial<AgentEventWrites> {
  const result = event.type === "job_ended" ? event.result : undefined;
  if (!component || !install || !result?.health) return {};
  const { health, because, drift } = result;
  const seen = { health, healthBecause: because ?? "", drift: drift ?? null };
  return { install: bump(install), component: { ...component, ...seen } };
}

function applyHealth(
  facts: AgentEventFacts,
  event: Extract<AgentEvent, { type: "health" }>,
): AgentEventWrites {
  const { component, install } = facts;
  // A component that is gone by now: its last status came late.
  if (!component || !install) return writes({});
  const { health, because, drift } = event;
  const details = { component: component.name, health, because, ...(drift ? { drift } : {}) };
  return writes({
    install: bump(install),
    component: { ...component, health, healthBecause: because, drift: drift ?? null },
    audit: [record(facts, "component.health", install.name, details)],
    wake: { install: install.name },
  });
}

/** The journal is new: jobs the agent had and knows nothing of now cannot be known by anybody. */
function applyInventory(
  facts: AgentEventFacts,
  event: Extract<AgentEvent, { type: "inventory" }>,
): AgentEventWrites {
  const found = new Set(event.jobs.map(({ job, attempt }) => `${job}/${attempt}`));
  const because = "the agent lost its journal and knows nothing of this job";
  const abandoned = (facts.open ?? []).flatMap((job): JobRow[] => {
    if (found.has(`${job.id}/${job.attempt}`) || facts.undelivered?.has(job.id)) return [];
    const state = advanceJob(job.state, { type: "abandon", at: facts.now, because });
    if (!state || !isSettled(state)) return [];
    const failure = { code: "lost" as const, message: because };
    return [{ ...job, state, endedAt: facts.now, failure, log: null, logComplete: false }];
  });
  const details = { found: event.jobs, abandoned: abandoned.map(({ id }) => id) };
  return writes({
    jobs: abandoned,
    audit: [record(facts, "agent.inventory", facts.agent, details)],
    wake: { ...(facts.install ? { install: facts.install.name } : {}), releases: true },
  });
}

const PublishedImage = z.object({
  name: z.string(),
  kind: z.enum(["runner", "plugin", "sandbox"]),
  repository: z.string(),
  digest: Digest,
  descriptor: PluginDescriptor.nullish(),
});

function applyImages(
  facts: AgentEventFacts,
  event: Extract<AgentEvent, { type: "images_published" }>,
): AgentEventWrites {
  if (facts.audience !== "build") return strayEvent(facts);
  const images = event.images.flatMap((image): ImageRow[] => {
    const parsed = PublishedImage.safeParse(image).data;
    if (!parsed) return [];
    return [{ ...parsed, descriptor: parsed.descriptor ?? null, publishedAt: facts.now }];
  });
  const unreadable = event.images.length - images.length;
  const published = images.map(({ repository, digest }) => `${repository}@${digest}`);
  const details = { images: published, ...(unreadable > 0 ? { unreadable } : {}) };
  return writes({
    images,
    audit: [record(facts, "images.published", facts.agent, details)],
    // An install may be waiting for its sandbox's image.
    wake: { releases: true, allInstalls: true },
  });
}

/** An event about no job this agent could hold: kept on record, changes nothing. */
function strayEvent(facts: AgentEventFacts): AgentEventWrites {
  const { event } = facts;
  const about = "job" in event ? { job: event.job, attempt: event.attempt } : {};
  const details = { type: event.type, ...about };
  return writes({ audit: [record(facts, "agent.stray_event", facts.agent, details)] });
}

function isAnotherAttempt(job: JobRow, event: AgentEvent): boolean {
  return "attempt" in event && event.attempt !== job.attempt;
}

interface Failed {
  readonly code: FailureCode;
  readonly message: string;
}

function failureOf(move: Settling): Failed | undefined {
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

function bump(install: InstallRow): InstallRow {
  return { ...install, revision: install.revision + 1 };
}

function jobDetails({ operation, install, component, release, attempt }: JobRow) {
  return { operation, install, component, release, attempt };
}

function wakeFor({ install, audience }: JobRow): AgentEventWrites["wake"] {
  return install === null ? { releases: audience === "build" } : { install };
}

function record(
  { agent, now }: AgentEventFacts,
  action: string,
  subject: string,
  details: Record<string, unknown>,
): AuditEntry {
  return { at: now, actor: agent, action, subject, details };
}

function writes(some: Partial<AgentEventWrites>): AgentEventWrites {
  return { jobs: [], images: [], audit: [], wake: {}, ...some };
}
