// A runtime in memory for tests of what drives one: jobs are functions, and the place where they
// live is a value, so that a "restarted agent" is a second runtime over the same place.

import { setTimeout as sleep } from "node:timers/promises";
import { Failure, type JobName } from "@exclave/core";
import {
  type JobExit,
  type JobRun,
  type JobRuntime,
  type JobSpec,
  outputGap,
  type RuntimeCapabilities,
} from "../job-runtime.ts";

/** What a job does; the number it returns is its exit code. */
export type FakeProgram = (job: FakeJob) => Promise<number>;

export interface FakeJob {
  readonly spec: JobSpec;
  /** Writes output as it is; a line brings its own end. */
  readonly say: (text: string) => void;
  /** Fires on SIGTERM. A program that does not look at it is killed after the grace. */
  readonly terminated: AbortSignal;
}

export interface FakeRuntimeOptions {
  /** Which program an image holds. */
  readonly programOf: (spec: JobSpec) => FakeProgram;
  /** Given to a second runtime, it knows the first one's jobs. */
  readonly place?: FakePlace;
  readonly deadlineGraceMs?: number;
  /** Rotates output: so many bytes are there to be read, and no older ones. */
  readonly outputBytesKept?: number;
  /** Deletes what was stopped, and knows only that it was. */
  readonly forgetsStopped?: boolean;
}

export type FakePlace = Map<JobName, FakeRun>;

export interface FakeRun {
  readonly output: Buffer[];
  readonly terminate: AbortController;
  /** Settles the job's exit; only the first call counts. */
  readonly end: (exit: JobExit) => void;
  readonly whenEnded: Promise<void>;
  exit?: JobExit;
  verdict?: JobExit;
}

const POLL_MS = 5;
/** Its jobs are functions of this process: there is nothing to measure and nothing between them. */
const CAPABILITIES: RuntimeCapabilities = {
  limits: {
    memoryBytes: "none",
    processesMax: "none",
    cpus: "none",
    logBytesMax: "none",
    diskBytesMax: "none",
  },
  isolates: { network: false, files: false },
  identities: false,
  output: "kept",
  streams: "ordered",
  stoppedExit: "known",
  leavesPrograms: false,
};

export function createFakeRuntime(options: FakeRuntimeOptions): JobRuntime {
  const { programOf, place = new Map(), deadlineGraceMs = 100 } = options;
  const { outputBytesKept = Number.POSITIVE_INFINITY, forgetsStopped = false } = options;
  const capabilities: RuntimeCapabilities = {
    ...CAPABILITIES,
    output: outputBytesKept === Number.POSITIVE_INFINITY ? "kept" : "rotated",
    stoppedExit: forgetsStopped ? "forgotten" : "known",
  };

  return { type: "fake", capabilities, start, inspect, output, stop, remove, list };

  async function start(spec: JobSpec): Promise<void> {
    if (place.has(spec.name)) return;
    const run = createRun();
    place.set(spec.name, run);
    const deadline = setTimeout(() => {
      void endRun(run, deadlineGraceMs, { kind: "deadline" });
    }, spec.deadlineMs);
    void run.whenEnded.then(() => clearTimeout(deadline));
    void perform(programOf(spec), spec, run);
  }

  async function inspect(name: JobName): Promise<JobRun> {
    const run = place.get(name);
    if (!run) return { kind: "absent" };
    return run.exit ? { kind: "exited", exit: run.exit } : { kind: "running" };
  }

  async function* output(
    name: JobName,
    from: number,
    signal: AbortSignal,
  ): AsyncIterable<Uint8Array> {
    const run = place.get(name);
    if (!run) throw new Failure("not_found", `there is no job ${name} here`);
    let position = from;
    while (!signal.aborted) {
      const isLast = run.exit !== undefined;
      const said = Buffer.concat(run.output);
      const oldest = Math.max(0, said.length - outputBytesKept);
      if (position < oldest) throw outputGap(name, position, oldest);
      const chunk = said.subarray(position);
      position += chunk.length;
      if (chunk.length > 0) yield chunk;
      if (isLast) return;
      await sleep(POLL_MS);
    }
  }

  async function stop(name: JobName, graceMs: number): Promise<void> {
    const run = place.get(name);
    if (run) await endRun(run, graceMs, forgetsStopped ? { kind: "stopped" } : undefined);
  }

  async function remove(name: JobName): Promise<void> {
    await stop(name, 0);
    place.delete(name);
  }

  async function list(): Promise<JobName[]> {
    return [...place.keys()].sort();
  }
}

function createRun(): FakeRun {
  const { promise, resolve } = Promise.withResolvers<void>();
  const run: FakeRun = {
    output: [],
    terminate: new AbortController(),
    whenEnded: promise,
    end: (exit) => {
      run.exit ??= run.verdict ?? exit;
      resolve();
    },
  };
  return run;
}

async function perform(program: FakeProgram, spec: JobSpec, run: FakeRun): Promise<void> {
  const say = (text: string) => {
    // What was killed says nothing more.
    if (!run.exit) run.output.push(Buffer.from(text));
  };
  try {
    const code = await program({ spec, say, terminated: run.terminate.signal });
    run.end({ kind: "code", code });
  } catch (reason) {
    if (run.terminate.signal.aborted) run.end({ kind: "signal", signal: "SIGTERM" });
    say(`${reason instanceof Error ? reason.message : String(reason)}\n`);
    run.end({ kind: "code", code: 1 });
  }
}

/** Asks, waits for the grace, and takes it down; a verdict outweighs what the job made of it. */
async function endRun(run: FakeRun, graceMs: number, verdict: JobExit | undefined): Promise<void> {
  if (run.exit) return;
  if (verdict) run.verdict = verdict;
  run.terminate.abort();
  const grace = new AbortController();
  const graceOver = sleep(graceMs, undefined, { signal: grace.signal }).catch(() => undefined);
  await Promise.race([run.whenEnded, graceOver]);
  grace.abort();
  run.end({ kind: "signal", signal: "SIGKILL" });
}
