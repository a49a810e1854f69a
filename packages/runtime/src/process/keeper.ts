// Keeps one job: starts its program, watches over it, and writes down how it ended. A program of
// its own, in a session of its own, so that a job goes on and its end is recorded while no agent
// runs. Usage: node keeper.ts <job directory>
//
// Limits are watched, not enforced by the kernel: a cgroup would also hold the long-running
// services that a job is allowed to leave behind (in a session and with an environment of their own),
// and end them with it.

import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, fstatSync, openSync, readSync, writeFileSync, writeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import type { JobExit } from "../job-runtime.ts";
import {
  claimJob,
  type ExitRecord,
  type JobDirectory,
  type JobOrder,
  jobDirectory,
  readOrder,
  writeRecord,
} from "./job-directory.ts";
import { type Ended, exitOf } from "./judge-job.ts";
import {
  identify,
  type ProcessIdentity,
  processTable,
  sessionMembers,
  signalProcess,
  signalSession,
} from "./process-table.ts";
import { straysOf } from "./strays.ts";
import { watchJob } from "./watch-job.ts";

/** What the program leaves in its session may finish or setsid for so long before it is killed. */
const LEFTOVERS_MS = 300;
const LEFTOVERS_KILL_MS = 30_000;
const EXIT_RECORD_TRIES = 600;

/**
 * The program waits behind this gate until its pid is on record. If the keeper dies first, the gate
 * reads the end of its pipe and nothing of the job has run: what is reported as lost is not running.
 */
const GATE = 'read -r go <&3 || exit 125; exec 3<&-; exec "$@"';

async function keep(job: JobDirectory): Promise<void> {
  const order = readOrder(job);
  const keeper = identify(processTable, process.pid);
  if (!order || !keeper || !claimJob(job, { keeper })) return;

  const output = openSync(job.output, "a+", 0o600);
  try {
    await recordExit(job, await runProgram(job, order, output));
  } finally {
    closeSync(output);
  }
}

async function runProgram(job: JobDirectory, order: JobOrder, output: number): Promise<JobExit> {
  const startedAt = performance.now();
  let child: ChildProcess;
  let ended: Promise<Ended>;
  let program: ProcessIdentity;
  try {
    child = spawn("/bin/sh", ["-c", GATE, "sh", ...order.argv], {
      cwd: job.work,
      env: { ...order.environment },
      // The file itself, not a pipe: nothing is lost when the keeper is killed.
      stdio: ["ignore", output, output, "pipe"],
      detached: true,
    });
    ended = whenEnded(child);
    program = await record(job, child, ended);
  } catch (reason) {
    return { kind: "lost", because: `its program could not be started: ${messageOf(reason)}` };
  }
  preferAsVictim(program.pid);
  open(child);

  const killsBefore = processTable.memoryKills();
  const note = (text: string) => noteIn(output, text);
  const watch = watchJob({ job, order, program, startedAt, output, note });
  const end = await ended;
  const verdict = watch.finish();
  const memoryKills = processTable.memoryKills() - killsBefore;
  await endLeftovers(job, program);
  return exitOf(end, { verdict, memoryKills });
}

function whenEnded(child: ChildProcess): Promise<Ended> {
  const { promise, resolve, reject } = Promise.withResolvers<Ended>();
  child.once("exit", (code, signal) => resolve({ code, signal }));
  child.once("error", reject);
  return promise;
}

/** Writes down which process it is. Its identity can be read: it cannot be past the gate yet. */
async function record(
  job: JobDirectory,
  child: ChildProcess,
  ended: Promise<Ended>,
): Promise<ProcessIdentity> {
  const program = child.pid === undefined ? undefined : identify(processTable, child.pid);
  if (!program) {
    await ended;
    throw new Error("it ended before it began");
  }
  try {
    writeRecord(job.program, program);
  } catch (reason) {
    signalSession(processTable, program, "SIGKILL");
    await ended;
    throw reason;
  }
  return program;
}

function open(child: ChildProcess): void {
  const gate = child.stdio[3];
  if (gate && "end" in gate) {
    // Somebody may have stopped the job at its gate already; its exit tells.
    gate.on("error", () => undefined);
    gate.end("go\n");
  }
}

/**
 * When the machine itself runs out of memory, a job goes before its keeper and the agent, by a tenth
 * of the memory there is. Not by more: a small job is not to die for a large neighbour.
 */
const VICTIM_SCORE = "100";

function preferAsVictim(pid: number): void {
  try {
    writeFileSync(`/proc/${pid}/oom_score_adj`, VICTIM_SCORE);
  } catch {
    // Not Linux, or not allowed: the limits below still hold.
  }
}

/** A job ends as one: what its program left goes with it, in its session or out of it. */
async function endLeftovers(job: JobDirectory, program: ProcessIdentity): Promise<void> {
  const since = performance.now();
  for (;;) {
    const strays = straysOf(job);
    if (strays.length === 0 && sessionMembers(processTable, program).length === 0) return;
    const waitedMs = performance.now() - since;
    // Not even SIGKILL ends what hangs in the kernel, on a dead network disk for example.
    if (waitedMs >= LEFTOVERS_KILL_MS) return;
    if (waitedMs >= LEFTOVERS_MS) {
      signalSession(processTable, program, "SIGKILL");
      for (const pid of strays) signalProcess(pid, "SIGKILL");
    }
    await sleep(20);
  }
}

/** Waits out a full disk for ten minutes: an end that was not written down is a lost job. */
async function recordExit(job: JobDirectory, exit: JobExit): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      return writeRecord(job.exit, { exit, endedAt: Date.now() } satisfies ExitRecord);
    } catch (reason) {
      // A removed job needs no record any more.
      if ((reason as NodeJS.ErrnoException).code === "ENOENT") return;
      if (tries >= EXIT_RECORD_TRIES) throw reason;
    }
    await sleep(1_000);
  }
}

/** A line of the keeper's own in the job's output, never in the middle of one of the job's. */
function noteIn(output: number, text: string): void {
  try {
    const { size } = fstatSync(output);
    const last = Buffer.alloc(1);
    if (size > 0) readSync(output, last, 0, 1, size - 1);
    const isFreshLine = size === 0 || last[0] === 0x0a;
    writeSync(output, `${isFreshLine ? "" : "\n"}exclave: ${text}\n`);
  } catch {
    // A full disk: the exit still says what happened.
  }
}

function messageOf(reason: unknown): string {
  return reason instanceof Error ? reason.message : String(reason);
}

const [directory] = process.argv.slice(2);
if (directory === undefined) {
  process.stderr.write("usage: keeper <job directory>\n");
  process.exitCode = 2;
} else {
  // It ends with its job and not before: a shutdown or a closed terminal reaches the job by itself.
  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const)
    process.on(signal, () => undefined);
  await keep(jobDirectory(directory));
}
