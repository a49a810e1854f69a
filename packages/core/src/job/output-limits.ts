// How much a job may say, the same for the runner that writes it and the agent that reads it. A log
// over its limit has a gap that says so. An output over a limit fails the job: a value that others
// wait for is never lost in silence, and never shown.

import { leavesOf } from "../redact.ts";
import type { JobLine, OutputLine } from "./job-line.ts";

/** A line that means something; longer text is cut. */
export const LINE_BYTES_MAX = 4 * 1024 * 1024;
/** What is shown of a line that was cut. */
export const CUT_LINE_CHARS = 16 * 1024;
export const LOG_BYTES_MAX = 16 * 1024 * 1024;

const OUTPUTS_MAX = 1_000;
const OUTPUTS_BYTES_MAX = 16 * 1024 * 1024;
const ARTIFACTS_MAX = 10_000;
/** Values in one output: each is looked for in every line of a log. */
const LEAVES_MAX = 10_000;
const DEPTH_MAX = 64;

export interface OutputBudget {
  /** Why this line is over a limit, in words that tell nothing of its value; undefined if it is not. */
  refuse(line: JobLine, sizeBytes: number): string | undefined;
}

export function createOutputBudget(): OutputBudget {
  const sizes = new Map<string, number>();
  let artifacts = 0;

  return {
    refuse(line, sizeBytes) {
      if (line.type === "artifact") {
        artifacts += 1;
        return artifacts > ARTIFACTS_MAX ? `it named over ${ARTIFACTS_MAX} artifacts` : undefined;
      }
      return line.type === "output" ? refuseOutput(line, sizeBytes) : undefined;
    },
  };

  function refuseOutput(line: OutputLine, sizeBytes: number): string | undefined {
    const shape = refuseShape(line);
    if (shape !== undefined) return shape;
    if (sizeBytes > LINE_BYTES_MAX) {
      return `its output ${shortName(line)} has ${sizeBytes} bytes and may have ${LINE_BYTES_MAX}`;
    }
    sizes.set(line.name, sizeBytes);
    if (sizes.size > OUTPUTS_MAX) return `it has over ${OUTPUTS_MAX} outputs`;
    const total = [...sizes.values()].reduce((sum, size) => sum + size, 0);
    return total > OUTPUTS_BYTES_MAX
      ? `its outputs have over ${OUTPUTS_BYTES_MAX} bytes together`
      : undefined;
  }
}

/** Looked at before anything walks through the value: what is too deep would overflow a stack. */
function refuseShape(line: OutputLine): string | undefined {
  const { depth, count } = leavesOf(line.value);
  if (depth > DEPTH_MAX) return `its output ${shortName(line)} is over ${DEPTH_MAX} levels deep`;
  return count > LEAVES_MAX
    ? `its output ${shortName(line)} has over ${LEAVES_MAX} values`
    : undefined;
}

function shortName({ name }: OutputLine): string {
  return JSON.stringify(name.slice(0, 100));
}

/** What stands in a log for a message that is too long to be read: nothing of it. */
export function leftOutMessage(sizeBytes: number): string {
  return `[a message of ${sizeBytes} bytes was left out: it may have ${LINE_BYTES_MAX}]`;
}

/** Whether a line that was cut may have been a message: then not even its beginning is shown. */
export function mayBeMessage(text: string): boolean {
  return text.trimStart().startsWith("{");
}

/** The beginning of a text that is too long; to be cut only once it is without secrets. */
export function cutText(redacted: string): string {
  const leftOut = redacted.length - CUT_LINE_CHARS;
  if (leftOut <= 0) return redacted;
  return `${redacted.slice(0, CUT_LINE_CHARS)} [the rest was left out]`;
}

/** What is held of a line that is too long to be held, with a word about that. */
export function beginningOf(text: string, sizeBytes: number): string {
  return `[the beginning of a line of ${sizeBytes} bytes] ${text}`;
}

export interface LogBudget {
  /** What to write instead of this line: the line, a word that the log ends here, or nothing. */
  within(line: string, sizeBytes: number): string | undefined;
  /** What was left out, in words; undefined if nothing was. */
  gap(): string | undefined;
}

export function createLogBudget(logBytesMax: number): LogBudget {
  let keptBytes = 0;
  let leftOutBytes = 0;

  return {
    within(line, sizeBytes) {
      if (leftOutBytes === 0 && keptBytes + sizeBytes <= logBytesMax) {
        keptBytes += sizeBytes;
        return line;
      }
      const isFirst = leftOutBytes === 0;
      leftOutBytes += sizeBytes;
      return isFirst
        ? `[the log is over its limit of ${logBytesMax} bytes and ends here]`
        : undefined;
    },
    gap: () => (leftOutBytes > 0 ? `[${leftOutBytes} bytes of log were left out]` : undefined),
  };
}
