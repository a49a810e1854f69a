// A runtime as the agent sees one: jobs that live on when the agent dies, are found again by name,
// say something as time passes and end. It is the place where promises about launches are looked at.

import { Failure, JobDocument, type JobLine, type JobName } from "@exclave/core";
import type { JobExit, JobRun, JobRuntime, JobSpec, RuntimeCapabilities } from "@exclave/runtime";
import { AT_MOST_ONCE, shownOf } from "./jobs-at-work.ts";
import { must, note, type World } from "./world.ts";

export interface SimulatedRuntime {
  /** The port, for as many lives of the agent as there are. */
  readonly port: JobRuntime;
  /** Everything that was ever started, by name. */
  readonly history: ReadonlyMap<JobName, Started>;
  /** Everything that was started and not removed. */
  left(): JobName[];
  /** The machine it runs on fails: nothing of it is left but what was on disk. */
  killAll(): void;
  /** The machine is shut down in order: every program is asked to end, and does. */
  shutDown(): void;
  /** Its disk is lost with the machine: nobody can say any more what ever ran. */
  wipe(): void;
}

export interface Started {
  readonly name: JobName;
  readonly document: JobDocument;
  readonly startedAt: number;
  times: number;
  /** What it said, as a log shows it. */
  said: string;
  endedAt?: number;
  exit?: JobExit;
  /** How it came out, if it was let to its end. */
  ok?: boolean;
}

/** What a job does: lines it says, how long it takes, how it ends. */
export interface Performance {
  readonly lines: readonly JobLine[];
  readonly takesMs: number;
  readonly ok: boolean;
  /** Runs when it has ended by itself: what it did to the world. */
  readonly onEnd?: () => void;
}

export interface RuntimeOptions {
  readonly name: string;
  readonly perform: (document: JobDocument) => Performance;
  /** Before it starts: what else is at work. */
  readonly onStart: (started: Started) => void;
}

interface Run {
  readonly started: Started;
  output: Buffer;
  exit?: JobExit | undefined;
  waiters: (() => void)[];
}

const CAPABILITIES: RuntimeCapabilities = {
  limits: {
    memoryBytes: "enforced",
    processesMax: "enforced",
    cpus: "enforced",
    logBytesMax: "enforced",
    diskBytesMax: "enforced",
  },
  isolates: { network: true, files: true },
  identities: true,
  output: "kept",
  streams: "ordered",
  stoppedExit: "known",
  leavesPrograms: false,
};

export function createSimulatedRuntime(world: World, options: RuntimeOptions): SimulatedRuntime {
  const { name, perform, onStart } = options;
  const runs = new Map<JobName, Run>();
  const history = new Map<JobName, Started>();
  const denied = new Set<JobName>();
  const forgotten = new Set<JobName>();
  const timers = world.time.timersFor(() => true);

  const port: JobRuntime = {
    type: "simulated",
    capabilities: CAPABILITIES,
    async start(spec) {
      faultBefore("start");
      begin(spec);
      faultAfter("start", spec.name);
    },
    async inspect(job) {
      faultBefore("inspect");
      if (denied.has(job)) return { kind: "absent" };
      return looksUnbegun(job) ? { kind: "waiting", because: "nobody has begun it" } : runOf(job);
    },
    output,
    async stop(job, graceMs) {
      faultBefore("stop");
      const run = runs.get(job);
      if (!run || run.exit || world.sabotage === "stop-is-forgotten") return;
      await timers.sleep(world.dice.below(Math.max(1, Math.min(graceMs, 5_000))));
      end(run, { kind: "signal", signal: "SIGTERM" });
    },
    async remove(job) {
      faultBefore("remove");
      const run = runs.get(job);
      if (world.sabotage === "jobs-are-not-removed") return;
      if (run && !run.exit) end(run, { kind: "signal", signal: "SIGKILL" });
      if (run?.exit) runs.delete(job);
    },
    async list() {
      return [...runs.keys()].sort();
    },
  };
  return {
    port,
    history,
    left: () => [...runs.keys()],
    killAll: () => endAll({ kind: "lost", because: "the machine was restarted" }),
    shutDown: () => endAll({ kind: "signal", signal: "SIGTERM" }),
    wipe() {
      endAll({ kind: "lost", because: "the machine was lost" });
      for (const job of runs.keys()) forgotten.add(job);
      runs.clear();
    },
  };

  function endAll(exit: JobExit): void {
    for (const run of runs.values()) end(run, exit);
  }

  function begin({ name: job, files }: JobSpec): void {
    const isForgotten = world.sabotage === "launches-are-forgotten" || looksUnbegun(job);
    if (runs.has(job) && !isForgotten) return;
    note(world, `${name} runtime starts ${job}`);
    const document = JobDocument.parse(JSON.parse(files["job.json"] ?? "{}"));
    // What nobody remembers is launched again under its name, unless it may run only once.
    const isAnew = forgotten.delete(job) && !isOnce(job);
    const before = isAnew ? undefined : history.get(job);
    const fresh = { name: job, document, startedAt: world.time.now, times: 0, said: "" };
    const started: Started = before ?? fresh;
    started.times++;
    must(world, started.times === 1, "an attempt is launched at most once", job);
    onStart(started);
    history.set(job, started);
    const run: Run = { started, output: Buffer.alloc(0), waiters: [] };
    runs.set(job, run);
    play(run, perform(document));
  }

  /** With its last line it has done what it does to the world; a moment later its program ends. */
  function play(run: Run, { lines, takesMs, ok, onEnd }: Performance): void {
    const step = Math.max(1, Math.floor(takesMs / (lines.length + 1)));
    for (const [index, line] of lines.entries()) {
      timers.after(step * (index + 1), () => {
        if (run.exit) return;
        if (index === lines.length - 1) {
          run.started.ok = ok;
          onEnd?.();
        }
        say(run, line);
      });
    }
    timers.after(step * (lines.length + 1), () => end(run, { kind: "code", code: ok ? 0 : 1 }));
  }

  function say(run: Run, line: JobLine): void {
    run.started.said += shownOf(line);
    run.output = Buffer.concat([run.output, Buffer.from(`${JSON.stringify(line)}\n`)]);
    for (const wake of run.waiters.splice(0)) wake();
  }

  function end(run: Run, exit: JobExit): void {
    if (run.exit) return;
    note(world, `${name} runtime: ${run.started.name} ends ${JSON.stringify(exit)}`);
    run.exit = exit;
    run.started.exit = exit;
    run.started.endedAt = world.time.now;
    for (const wake of run.waiters.splice(0)) wake();
  }

  function runOf(job: JobName): JobRun {
    const run = runs.get(job);
    if (!run) return { kind: "absent" };
    return run.exit ? { kind: "exited", exit: run.exit } : { kind: "running" };
  }

  async function* output(
    job: JobName,
    from: number,
    signal: AbortSignal,
  ): AsyncIterable<Uint8Array> {
    const run = runs.get(job);
    if (!run) throw new Failure("not_found", `there is no job ${job} here`);
    let position = from;
    while (!signal.aborted) {
      const isLast = run.exit !== undefined;
      const chunk = run.output.subarray(position);
      position += chunk.length;
      if (chunk.length > 0) yield chunk;
      if (isLast) return;
      await new Promise<void>((resolve) => {
        run.waiters.push(resolve);
      });
    }
  }

  function isOnce(job: JobName): boolean {
    const { type, operation } = history.get(job)?.document ?? {};
    return type === AT_MOST_ONCE && operation === "apply";
  }

  function looksUnbegun(job: JobName): boolean {
    return world.sabotage === "work-looks-unbegun" && isOnce(job) && !runs.get(job)?.exit;
  }

  function faultBefore(what: string): void {
    if (!world.strikes("runtime-error")) return;
    note(world, `${name} runtime cannot ${what}`);
    throw new Failure("unavailable", "the runtime cannot be asked");
  }

  /** It has begun, and whoever asked is told that it has not. */
  function faultAfter(what: string, job: JobName): void {
    if (!world.strikes("runtime-error-after")) return;
    if (world.sabotage === "beginnings-are-denied" && isOnce(job)) denied.add(job);
    note(world, `${name} runtime did ${what} and says it did not`);
    throw new Failure("unavailable", "the runtime cannot be asked");
  }
}
