// A job of the process driver is a directory, and its state is which files are in it:
//
//   order.json    what to run; there from the first moment, the directory appears whole
//   claim.json    a keeper has taken the job: from here on nobody else ever launches it
//   program.json  which process it is, written before its first instruction runs
//   output.log    what it said, stdout and stderr as they came
//   exit.json     how it ended
//   keeper.log    what the keeper had to complain about, usually nothing
//   work/ tmp/    the job's own
//
// Keeper and driver meet only here, so either may die and the other still knows. This module uses
// little beyond Node: the keeper loads it once per job.

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Limits } from "@exclave/core";
import { createDurablySync, writeDurablySync } from "@exclave/machine/durable-files-sync";
import type { JobExit } from "../job-runtime.ts";
import type { ProcessIdentity } from "./process-table.ts";

export interface JobOrder {
  readonly argv: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  readonly limits: Limits;
  readonly deadlineMs: number;
  readonly deadlineGraceMs: number;
  /** The variable (`NAME=value`) by which what belongs to this job is known, wherever it went. */
  readonly mark: string;
  /** Where word is left of what may outlive the job. */
  readonly runDirectory: string;
}

/** Who took the job. `keeper` is absent when it was taken so that it would never run. */
export interface JobClaim {
  readonly keeper?: ProcessIdentity;
}

export interface ExitRecord {
  readonly exit: JobExit;
  readonly endedAt: number;
}

export interface JobDirectory {
  readonly path: string;
  readonly order: string;
  readonly claim: string;
  readonly program: string;
  readonly output: string;
  readonly exit: string;
  readonly keeperLog: string;
  readonly work: string;
  readonly temporary: string;
}

export function jobDirectory(path: string): JobDirectory {
  return {
    path,
    order: join(path, "order.json"),
    claim: join(path, "claim.json"),
    program: join(path, "program.json"),
    output: join(path, "output.log"),
    exit: join(path, "exit.json"),
    keeperLog: join(path, "keeper.log"),
    work: join(path, "work"),
    temporary: join(path, "tmp"),
  };
}

/** Takes the job, once and for all: false when somebody did before. */
export function claimJob(job: JobDirectory, claim: JobClaim): boolean {
  return createDurablySync(job.claim, JSON.stringify(claim));
}

/** Writes a record whole and durably, or not at all. */
export function writeRecord(path: string, value: unknown): void {
  writeDurablySync(path, JSON.stringify(value));
}

// A record that is not there is undefined. They are our own and appear whole, so they are trusted.

export function readOrder(job: JobDirectory): JobOrder | undefined {
  return readJson(job.order) as JobOrder | undefined;
}

export function readClaim(job: JobDirectory): JobClaim | undefined {
  return readJson(job.claim) as JobClaim | undefined;
}

/** Which process the job's program is; undefined until it is about to run. */
export function readProgram(job: JobDirectory): ProcessIdentity | undefined {
  return readJson(job.program) as ProcessIdentity | undefined;
}

export function readExit(job: JobDirectory): ExitRecord | undefined {
  return readJson(job.exit) as ExitRecord | undefined;
}

export function isThere(path: string): boolean {
  return existsSync(path);
}

function readJson(path: string): unknown {
  try {
    return JSON.parse(readFileSync(path, "utf8"));
  } catch (reason) {
    if ((reason as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw reason;
  }
}
