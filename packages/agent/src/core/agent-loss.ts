// The first step on a new journal. For an agent that never lived before there is nothing to do; after a
// loss this is what the vault still knew, made durable again, and a full inventory for the server.

import { JobId, type JobName, jobName } from "@exclave/core";
import { endJob, NOTHING_SAID, openEnd } from "./agent-job-end.ts";
import { appliedComponents } from "./agent-schedule.ts";
import type { AgentJob } from "./agent-state.ts";
import { act, journal, record, type Turn } from "./turn.ts";

export function resumeAfterLoss(turn: Turn, found: readonly JobName[]): void {
  const { jobs, schedule, applied, issueNo, issuedFloor, checkpoints } = turn.state;
  const names = found.filter((name) => !jobs.has(name) && splitName(name) !== undefined);
  // A status looked up by an earlier life has nobody who waits for it.
  const leftovers = found.filter((name) => splitName(name) === undefined);

  // They began: an offer of one that comes once more is a repeat, whoever forgot the first.
  const settled = new Set([...turn.state.settled, ...names]);
  turn.state = { ...turn.state, foreign: new Set(names), settled };
  if (issueNo > 0) journal(turn, { kind: "issue", issueNo });
  if (issuedFloor > 0) journal(turn, { kind: "issued_floor", at: issuedFloor });
  if (checkpoints.length > 0) journal(turn, { kind: "checkpoints", list: checkpoints });
  for (const { entry } of schedule.values()) journal(turn, { kind: "schedule", entry });
  if (applied.there.length + applied.gone.length > 0) journal(turn, { kind: "applied", applied });
  for (const { record } of jobs.values()) journal(turn, { kind: "job", record });
  // Nothing is presumed about jobs that nobody here knows any more: they are reported and left alone.
  journal(turn, { kind: "foreign", names });
  record(turn, {
    type: "inventory",
    at: turn.now,
    jobs: inventory([...jobs.values()], names),
    ...appliedComponents(turn),
    ...(isNew(turn, found) && { isNew: true }),
  });
  for (const name of leftovers) act(turn, { kind: "remove", name });

  // Gone from the runtime too: whether it began is known to nobody, so it is not begun again.
  const because = "the agent lost its journal, and the runtime no longer knows the job";
  for (const [name, job] of jobs) {
    if (!found.includes(name)) endJob(turn, job, openEnd(job, "lost", because));
  }
}

/** One that has lived before, and lost journal and vault, refuses what was issued before that. */
function isNew({ state }: Turn, found: readonly JobName[]): boolean {
  const { jobs, applied, issueNo, issuedFloor, checkpoints } = state;
  const isKnown = jobs.size + found.length + applied.there.length + applied.gone.length > 0;
  return !isKnown && issueNo === 0 && issuedFloor === 0 && checkpoints.length === 0;
}

/** One that nobody here has a manifest of is waited for, and its end is told: more cannot be said of it. */
export function handleForeignExited(turn: Turn, name: JobName, because: string): void {
  const split = splitName(name);
  if (!split || !turn.state.foreign.has(name)) return;
  const foreign = new Set(turn.state.foreign);
  foreign.delete(name);
  turn.state = { ...turn.state, foreign };
  journal(turn, { kind: "foreign", names: [...foreign] });
  const outcome = { kind: "unknown", because } as const;
  const ended = { outcome, outputs: [], artifacts: [], ...NOTHING_SAID };
  record(turn, { type: "job_ended", at: turn.now, ...split, ...ended });
  act(turn, { kind: "remove", name });
}

function inventory(known: readonly AgentJob[], unknown: readonly JobName[]) {
  return [
    ...known.map(({ record: { manifest } }) => ({
      job: manifest.id as string,
      attempt: manifest.attempt,
      state: "running",
    })),
    ...unknown.flatMap((name) => {
      const split = splitName(name);
      return split ? [{ ...split, state: "unknown" }] : [];
    }),
  ];
}

/** Which attempt of which job a name is of; undefined for what is no job of the server's. */
function splitName(name: JobName): { job: JobId; attempt: number } | undefined {
  const at = name.lastIndexOf("-");
  const attempt = Number(name.slice(at + 1));
  const job = JobId.safeParse(name.slice("j-".length, at)).data;
  return job && jobName(job, attempt) === name ? { job, attempt } : undefined;
}
