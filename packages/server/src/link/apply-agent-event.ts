// What a committed agent event changes, decided without touching anything: the job it speaks of,
// the component or install behind that job, what goes on record, and what is reconciled.

import type { AgentEvent } from "@exclave/api";
import {
  type AuditEntry,
  advanceJob,
  Digest,
  failureOf,
  forgetSynced,
  type JobEvent,
  type JobSettling,
  PluginDescriptor,
  recordHealth,
  unreachable,
} from "@exclave/core";
import { z } from "zod";
import type { ImageRow, JobRow } from "../store/rows.ts";
import { type AgentEventFacts, type AgentEventWrites, writes } from "./agent-event-writes.ts";
import { applyInventory } from "./apply-inventory.ts";
import { bump, consequences, outputsLost } from "./job-consequences.ts";

export function applyAgentEvent(facts: AgentEventFacts): AgentEventWrites {
  const { event } = facts;
  switch (event.type) {
    case "job_accepted":
      return moveJob(facts, { type: "accept", at: facts.now });
    case "job_started":
      return moveJob(facts, { type: "start", at: facts.now });
    case "job_rejected": {
      const { code, because } = event;
      // It began here, as its agent said, and is over there: what became of it was told to a state that is lost.
      const wasHad = facts.job?.state.status === "running";
      if (wasHad) return settleJob(facts, { type: "abandon", at: facts.now, because });
      return settleJob(facts, { type: "reject", at: facts.now, code, because });
    }
    case "job_ended":
      return settleJob(facts, { type: "end", at: facts.now, outcome: event.outcome });
    case "health":
      return applyHealth(facts, event);
    case "inventory": {
      const { writes: after, details } = applyInventory(facts, event);
      const entry = record(facts, "agent.inventory", facts.agent, details);
      return {
        ...after,
        audit: [entry, ...after.audit],
        wake: {
          ...(facts.install
            ? { install: facts.install.id }
            : { otherInstalls: after.jobs.flatMap(({ install }) => install ?? []) }),
          releases: true,
          allInstalls: after.channel !== undefined,
        },
      };
    }
    case "images_published":
      return applyImages(facts, event);
    case "trust_changed":
      return writes({ audit: [record(facts, "agent.trust_changed", facts.agent, { ...event })] });
    case "alarm":
      return writes({ audit: [record(facts, "agent.alarm", facts.agent, { ...event })] });
    default:
      return unreachable(event);
  }
}

type JobEnded = Extract<AgentEvent, { type: "job_ended" }>;

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
    // No plan depends on how far something is that somebody asked for.
    wake: job.purpose.kind === "request" ? {} : wakeFor(job),
  });
}

/** One that was refused has none; one whose end was lost has whatever its agent still sends of it. */
function logOf(
  move: JobSettling,
  ended: JobEnded | undefined,
): Pick<JobRow, "log" | "logComplete"> {
  if (move.type === "abandon") return { log: null, logComplete: false };
  const { logBytes: bytes = 0, logSha256: sha256 = "" } = ended ?? {};
  return { log: { bytes, sha256 }, logComplete: bytes === 0 };
}

function settleJob(facts: AgentEventFacts, move: JobSettling): AgentEventWrites {
  const { job, event } = facts;
  if (!job || isAnotherAttempt(job, event)) return strayEvent(facts);
  const state = advanceJob(job.state, move);
  // A refusal of what is over already: somebody offered it again.
  if (!state) return move.type === "reject" ? strayEvent(facts) : writes({});

  const ended = event.type === "job_ended" ? event : undefined;
  const failure = failureOf(move, job);
  const settled: JobRow = {
    ...job,
    state,
    endedAt: facts.now,
    failure: failure ? { code: failure.code, message: failure.message } : null,
    exitCode: ended?.result?.exitCode ?? null,
    plan: ended?.result?.plan ?? null,
    report: ended?.report ?? null,
    ...logOf(move, ended),
  };
  const effect = consequences(facts, settled, failure);
  const action = move.type === "reject" ? "job.rejected" : "job.ended";
  const details = {
    ...jobDetails(job),
    outcome: state.status,
    ...(settled.failure ? { failure: settled.failure } : {}),
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
  const details = {
    name: install.name,
    component: component.name,
    health,
    because,
    ...(drift ? { drift } : {}),
  };
  const failure = { code: event.code ?? "bug", message: because, mayRepeat: true };
  const row = outputsLost(component, failure, facts.now) ?? component;
  return writes({
    install: bump(event.code === "not_synced" ? forgetSynced(install) : install),
    components: [
      recordHealth(row, {
        health,
        because,
        drift: drift ?? null,
        source: "agent",
        at: facts.now,
      }),
    ],
    audit: [record(facts, "component.health", install.id, details)],
    wake: { install: install.id },
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

/** Why an agent did not run it: somebody who is not this server may have signed it. */
function refusalOf(event: AgentEvent): { code?: string; because?: string } {
  if (event.type === "job_rejected") return { code: event.code, because: event.because };
  if (event.type !== "job_ended" || event.outcome.kind !== "failed") return {};
  return { code: event.outcome.code, because: event.outcome.message };
}

/** An event about no job this agent could hold: kept on record, changes nothing. */
function strayEvent(facts: AgentEventFacts): AgentEventWrites {
  const { event } = facts;
  const about = "job" in event ? { job: event.job, attempt: event.attempt } : {};
  const details = { type: event.type, ...about, ...refusalOf(event) };
  return writes({ audit: [record(facts, "agent.stray_event", facts.agent, details)] });
}

function isAnotherAttempt(job: JobRow, event: AgentEvent): boolean {
  return "attempt" in event && event.attempt !== job.attempt;
}

function jobDetails({ operation, install, installName, component, release, attempt }: JobRow) {
  return { operation, install, installName, component, release, attempt };
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
