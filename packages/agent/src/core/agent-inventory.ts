// What an agent tells a server that was set back: every job it has, and what it applied and destroyed last.

import { appliedComponents } from "./agent-schedule.ts";
import type { AgentJob } from "./agent-state.ts";
import { journal, record, setJob, type Turn } from "./turn.ts";

/**
 * All that is open here and what was applied last, after every event that came before. The server may have no
 * row of a job that is still at work: what it leaves is told by another inventory, after its end.
 */
export function recordInventory(turn: Turn): void {
  const jobs = [...turn.state.jobs.values()];
  record(turn, {
    type: "inventory",
    at: turn.now,
    jobs: jobs.map(heldJob),
    ...appliedComponents(turn),
  });
  for (const job of jobs) {
    if (job.phase === "ended" || job.record.isInventoried) continue;
    const told = { ...job.record, isInventoried: true };
    journal(turn, { kind: "job", record: told });
    setJob(turn, { ...job, record: told });
  }
}

export function heldJob({ record: { manifest }, phase }: AgentJob) {
  const state = phase === "ended" ? phase : phase === "ready" ? "accepted" : "running";
  return { job: manifest.id, attempt: manifest.attempt, state } as const;
}
