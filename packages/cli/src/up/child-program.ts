// One program that is kept up: started, its output to a log file, started again when it dies, with
// growing patience, until it is told to stop.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, open } from "node:fs/promises";
import { dirname } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { asFailure } from "@exclave/core";
import { identifyProcess, type ProcessIdentity } from "@exclave/machine";
import { endProcess } from "./processes.ts";

export interface ChildProgramOptions {
  readonly name: string;
  readonly program: string;
  /** Asked before every start: a join string is handed over only where it is needed. */
  readonly args: () => Promise<readonly string[]>;
  readonly environment: Readonly<Record<string, string>>;
  readonly logFile: string;
  readonly say: (line: string) => void;
  readonly onLine?: (line: string) => void;
  /** Told whenever the set of living processes changed. */
  readonly onChange: () => Promise<void>;
}

export interface ChildProgram {
  readonly name: string;
  readonly identity: () => ProcessIdentity | undefined;
  /** Fails when the program could not even be started once. */
  start(): Promise<void>;
  stop(options: { readonly graceMs: number; readonly hurry: AbortSignal }): Promise<void>;
}

const BACKOFF_MS = { first: 250, most: 10_000 };
/** A program that ran for this long had a good start; its next failure is a new one. */
const GOOD_RUN_MS = 10_000;

export function createChildProgram(options: ChildProgramOptions): ChildProgram {
  const { name, say, onChange } = options;
  const stopping = new AbortController();
  let identity: ProcessIdentity | undefined;
  let keeping: Promise<void> | undefined;

  return { name, identity: () => identity, start, stop };

  async function start(): Promise<void> {
    const child = await launch(options);
    keeping = keep(child);
    await remember(child);
  }

  async function stop(how: {
    readonly graceMs: number;
    readonly hurry: AbortSignal;
  }): Promise<void> {
    stopping.abort();
    if (identity) await endProcess(identity, how);
    await keeping;
    // It may have been on its way up again.
    if (identity) await endProcess(identity, how);
  }

  async function keep(first: ChildProcess): Promise<void> {
    let child: ChildProcess | undefined = first;
    let waitMs = BACKOFF_MS.first;
    while (!stopping.signal.aborted) {
      if (child) {
        const startedAt = Date.now();
        const how = await ended(child);
        identity = undefined;
        if (stopping.signal.aborted) break;
        if (Date.now() - startedAt > GOOD_RUN_MS) waitMs = BACKOFF_MS.first;
        say(`${name} ended (${how}); starting it again (its log: ${options.logFile})`);
      }
      await sleep(waitMs, undefined, { signal: stopping.signal }).catch(() => undefined);
      waitMs = Math.min(waitMs * 2, BACKOFF_MS.most);
      if (stopping.signal.aborted) break;
      child = await launchAgain();
    }
  }

  /** What it needs may be away for a while, such as the server it joins: that is no reason to give up. */
  async function launchAgain(): Promise<ChildProcess | undefined> {
    let child: ChildProcess;
    try {
      child = await launch(options);
    } catch (reason) {
      say(`${name} cannot be started: ${asFailure(reason).message}; trying again`);
      return undefined;
    }
    await remember(child).catch((reason: unknown) => {
      say(`${name} runs, but cannot be put on record: ${asFailure(reason).message}`);
    });
    return child;
  }

  async function remember({ pid }: ChildProcess): Promise<void> {
    identity = pid === undefined ? undefined : identifyProcess(pid);
    await onChange();
  }
}

async function launch(options: ChildProgramOptions): Promise<ChildProcess> {
  const { program, environment, logFile, onLine } = options;
  await mkdir(dirname(logFile), { recursive: true, mode: 0o700 });
  const log = await open(logFile, "a", 0o600);
  try {
    const child = spawn(program, [...(await options.args())], {
      env: environment,
      stdio: ["ignore", onLine ? "pipe" : log.fd, log.fd],
      // A session of its own: Ctrl-C reaches this program alone, which stops the others in order.
      detached: true,
    });
    if (child.stdout && onLine) createInterface({ input: child.stdout }).on("line", onLine);
    await once(child, "spawn");
    return child;
  } finally {
    await log.close();
  }
}

async function ended(child: ChildProcess): Promise<string> {
  if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  return child.signalCode ?? `exit code ${child.exitCode}`;
}
