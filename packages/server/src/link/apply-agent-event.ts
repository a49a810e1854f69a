// What a committed agent event changes, decided without touching anything: the job it speaks of,
// the component or install behind that job, what goes on record, and who should look again.

import type { AgentEvent } from "@exclave/api";
import {
  type AuditEntry,
  advanceJob,
  Digest,
  type Instant,
  isSettled,
  type JobEvent,
  PluginDescriptor,
  unreachable,
} from "@exclave/core";
import { z } from "zod";
import type { BuildRow, ComponentRow, ImageRow, InstallRow, JobRow } from "../store/rows.ts";
import { bump, consequences, failureOf, lookAgain, type Settling } from "./job-consequences.ts";

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
  if (!job || isAnotherAttempt(job, event)) return strayEvent(facts);
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

function settleJob(facts: AgentEventFacts, move: Settling): AgentEventWrites {
  const { job, event } = facts;
  if (!job || isAnotherAttempt(job, event)) return strayEvent(facts);
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
    install: bump(event.code === "not_synced" ? lookAgain(install) : install),
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
