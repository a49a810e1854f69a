// The end of a job in the agent: the record of it, and what the agent remembers because of it.

import { agentMemoryAfter, type FailureCode, interruptedEnd } from "@exclave/core";
import type { JobRecord } from "../journal/journal.ts";
import { recordInventory } from "./agent-inventory.ts";
import { forgetApplied, forgetSchedule, keepSchedule } from "./agent-schedule.ts";
import type { AgentJob, EndedJob } from "./agent-state.ts";
import { installOf, releaseOf, stepOf } from "./job-record.ts";
import { journal, record as recordEvent, setJob, type Turn } from "./turn.ts";

/** The log of a job that never said anything. */
export const NOTHING_SAID = {
  logBytes: 0,
  logSha256: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
} as const;
/** As many as fit one frame beside everything else. */
const ARTIFACTS_MAX = 300;

/** The result, what follows from it, and the job's close: one commit, so none is there without the rest. */
export function endJob(turn: Turn, job: AgentJob, ended: EndedJob): void {
  const { id, attempt } = job.record.manifest;
  const endedSeq = recordEvent(turn, {
    type: "job_ended",
    at: turn.now,
    job: id,
    attempt,
    outcome: ended.outcome,
    outputs: reportedOutputs(ended),
    outputsDigest: ended.outputsDigest,
    artifacts: ended.artifacts.slice(0, ARTIFACTS_MAX),
    result: ended.result,
    report: ended.report,
    logBytes: ended.logBytes,
    logSha256: ended.logSha256,
  });
  const record: JobRecord = {
    ...job.record,
    status: "ended",
    endedSeq,
    logBytes: ended.logBytes,
  };
  journal(turn, { kind: "job", record });
  if (ended.outcome.kind === "succeeded") remember(turn, record, ended);
  const log = { ...job.log, bytes: ended.logBytes };
  setJob(turn, { ...job, record, phase: "ended", isGrantAsked: false, grant: undefined, log });
  if (record.isInventoried) recordInventory(turn);
}

function remember(turn: Turn, record: JobRecord, ended: EndedJob): void {
  const { component } = stepOf(record);
  if (component === undefined) return;
  const { manifest } = record;
  const { operation, statusEveryMs } = manifest;
  const hasSchedule = statusEveryMs !== undefined;
  const job = { agent: turn.rules.kind, operation, hasComponent: true, hasSchedule };
  const { release, outputs, schedule } = agentMemoryAfter(job);
  const install = installOf(manifest);
  const index = releaseOf(record);
  // From which release a component is deployed now: that one may look at it and take it down.
  if (release === "deployed" && index !== undefined) {
    journal(turn, { kind: "deployed", install, component, index });
  }
  if (release === "undeployed") {
    journal(turn, { kind: "undeployed", install, component });
    forgetApplied(turn, component);
  }
  if (release === "forgotten") journal(turn, { kind: "release_forgotten", install });
  if (outputs === "kept") journal(turn, { kind: "outputs", component, outputs: ended.outputs });
  if (outputs === "removed") journal(turn, { kind: "outputs_removed", component });
  if (schedule === "kept") keepSchedule(turn, component, manifest);
  if (schedule === "removed") forgetSchedule(turn, component);
}

/** Values leave the install only if they are not sensitive, and only as many as fit one frame. */
function reportedOutputs({ outputs }: EndedJob) {
  const ROOM_BYTES = 96 * 1024;
  let used = 0;
  return outputs.map(({ name, value, sensitive }) => {
    used += JSON.stringify(value ?? null).length;
    return sensitive || used > ROOM_BYTES ? { name, sensitive } : { name, sensitive, value };
  });
}

export function failedEnd(code: FailureCode, message: string): EndedJob {
  return { ...SILENT, outcome: { kind: "failed", code, message } };
}

/** The end of one that may have begun and of which nobody can say how far it came. */
export function openEnd({ record }: AgentJob, code: FailureCode, because: string): EndedJob {
  return { ...SILENT, outcome: interruptedEnd(stepOf(record).effect, code, because) };
}

const SILENT = { outputs: [], artifacts: [], ...NOTHING_SAID } as const;
export const CANCELLED: EndedJob = { ...SILENT, outcome: { kind: "cancelled" } };
