// What agents said and what the server has of it, compared when a world has come to rest: events, ends,
// refusals and logs.

import type { AgentEvent } from "@exclave/api";
import { jobName } from "@exclave/core";
import type { JobRow } from "@exclave/server/simulation";
import type { Home } from "./home.ts";
import type { Parts } from "./simulate.ts";
import { must } from "./world.ts";

export function checkTold(parts: Parts): void {
  const { server, agents, world } = parts;
  checkRecordedEnds(parts);
  // With a journal, and with what a restored backup does not know, what was told is lost too.
  if (server.disk.isSetBack) return;
  for (const { home } of agents.values()) {
    if (home.journals > 1 || home.isRestarted) continue;
    checkEvents(parts, home);
    checkEnds(parts, home);
    checkRefusals(parts, home);
  }
  for (const job of server.lies.told.keys()) {
    const row = server.disk.data.nouns.get("jobs")?.get(job)?.body as JobRow | undefined;
    const home = row && agents.get(row.audience)?.home;
    if (!row || !home || home.isGone || home.journals > 1) continue;
    // One that was cancelled before its agent had it was never refused.
    const isRefused = ["rejected", "cancelled"].includes(row.state.status);
    must(world, isRefused, "a refusal is on record", `${job} is ${row.state.status}`);
  }
}

/** Of a sandbox that is gone, as far as it came. */
function checkEvents({ world, server }: Parts, { name, journal, journaled, isGone }: Home): void {
  const taken = server.disk.arrivals.taken.get(journal.load().journalId) ?? [];
  const said = journaled.map((event) => JSON.stringify(event));
  const wrong = taken.findIndex((event, index) => event !== said[index]);
  const promise = "every journaled event arrives once and in order";
  must(world, wrong < 0, promise, `${name}: ${taken[wrong]} is not ${said[wrong]}`);
  must(world, isGone || taken.length >= said.length, promise, `${name}: ${said[taken.length]}`);
}

function checkEnds({ world }: Parts, { journaled }: Home): void {
  const ended = new Set<string>();
  for (const event of journaled) {
    if (event.type !== "job_ended" || isAnswer(event)) continue;
    const name = jobName(event.job, event.attempt);
    must(world, !ended.has(name), "an end is told once", name);
    ended.add(name);
  }
}

/** A wish to cancel what the agent does not have is answered too. */
function isAnswer({ outcome }: Extract<AgentEvent, { type: "job_ended" }>): boolean {
  return outcome.kind === "unknown" && outcome.because.includes("has no record");
}

function checkRecordedEnds({ world, server }: Parts): void {
  const ended = new Set<string>();
  for (const { action, subject, details } of server.disk.data.audit) {
    if (!["job.ended", "job.rejected", "job.withdrawn"].includes(action)) continue;
    const name = `${subject} ${String(details["attempt"])}`;
    must(world, !ended.has(name), "an end is told once", `${name} is on record twice`);
    ended.add(name);
  }
}

/** A refusal of what is over already is on record as a stray event: the first of its code in a minute. */
function checkRefusals({ world, server }: Parts, { journaled, isGone }: Home): void {
  const { audit, nouns } = server.disk.data;
  for (const event of journaled) {
    if (event.type !== "job_rejected" || isGone) continue;
    const row = nouns.get("jobs")?.get(event.job)?.body as JobRow | undefined;
    const isOfJob = row?.state.status === "rejected";
    const isOnRecord = audit.some(({ action, subject, details }) =>
      isOfJob
        ? action === "job.rejected" && subject === event.job
        : action === "agent.stray_event" && details["code"] === event.code,
    );
    must(world, isOnRecord, "a refusal is on record", `${event.job}: ${event.because}`);
  }
}

/** The server's log of a job against what the job itself said, as the simulation would show it. */
export function checkLog({ world, server, agents }: Parts, job: JobRow): void {
  const home = agents.get(job.audience)?.home;
  // With a journal it is lost which logs were still to be sent.
  if (!home || home.journals > 1 || server.disk.isSetBack) return;
  const name = jobName(job.id, job.attempt);
  const started = home.runtime.history.get(name);
  const said = started?.said ?? "";
  const kept = Buffer.from(server.files.get(name)?.kept ?? []).toString();
  const promise = "a log is what its job said, byte for byte";
  if (kept === said) return;
  const about = `${name}: ${JSON.stringify(kept)} is not ${JSON.stringify(said)}`;
  if (job.state.status === "succeeded") {
    return must(world, home.isGone && said.startsWith(kept), promise, about);
  }
  // One whose launch failed has a line of the agent's, and one that was cut off unseen has none.
  const isCutOff = started?.exit?.kind !== "code";
  const isLaunchLine = isCutOff && /^failed: [^\n]+\n$/.test(kept);
  const isUnseen = isCutOff && kept === "" && (job.log?.bytes ?? 0) === 0;
  const isBeginning = home.isGone && said.startsWith(kept);
  must(world, isLaunchLine || isUnseen || isBeginning, promise, about);
}
