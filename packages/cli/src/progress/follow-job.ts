// A job's log to the screen as it grows, and how the job ended. A server that restarts in between is
// waited for, and the log goes on at the byte it broke off at.

import { setTimeout as sleep } from "node:timers/promises";
import { type Client, cancelJob, getJob, getJobLog, type JobView } from "@exclave/api";
import { asFailure } from "@exclave/core";
import { durationText } from "../program/arguments.ts";
import type { Cli } from "../program/cli.ts";
import { CliProblem, ExitWith, isAbort } from "../program/problem.ts";
import { failureText, isActive } from "./install-progress.ts";

const QUIET_MS = 3_000;
const BACKOFF_MS = 250;
const BACKOFF_MAX_MS = 5_000;
const GIVE_UP_MS = 5 * 60_000;

/** Streams the log to stdout until the job has ended; Ctrl-C cancels the job. */
export async function followJob(cli: Cli, client: Client, job: JobView): Promise<JobView> {
  const { signal } = cli.invocation;
  const speaking = new AbortController();
  const remarks = tellWhyItIsQuiet(cli, client, job.id, AbortSignal.any([signal, speaking.signal]));
  try {
    return await followToEnd(cli, client, job.id, () => speaking.abort());
  } catch (reason) {
    if (isAbort(reason)) await client.call(cancelJob, { params: { job: job.id }, body: {} });
    throw reason;
  } finally {
    speaking.abort();
    await remarks;
  }
}

/** Writes the log and returns the job as it ended; reconnects and resumes by offset. */
export async function followToEnd(
  cli: Cli,
  client: Client,
  job: string,
  onBytes: () => void = () => {},
): Promise<JobView> {
  const { signal, now } = cli.invocation;
  const outage = createOutage(cli, job);
  let from = 0;
  for (;;) {
    try {
      const query = { follow: "true", from };
      for await (const chunk of client.bytes(getJobLog, { params: { job }, query, signal })) {
        outage.isOver();
        onBytes();
        from += chunk.length;
        cli.writeLog(chunk);
      }
      const seen = await client.call(getJob, { params: { job }, signal });
      if (!isActive(seen.state)) return seen;
      // A server that stops ends the stream in good order, with the job still at work.
      outage.isOver();
    } catch (reason) {
      if (isAbort(reason) || asFailure(reason).code !== "unavailable") throw reason;
    }
    await outage.pause(now());
  }
}

/** One stretch without the server: said once, waited through with backoff, given up at last. */
function createOutage(cli: Cli, job: string) {
  const { signal } = cli.invocation;
  let since: number | undefined;
  let pauseMs = BACKOFF_MS;
  return {
    isOver() {
      since = undefined;
      pauseMs = BACKOFF_MS;
    },
    async pause(now: number): Promise<void> {
      if (since === undefined) cli.say("the connection to the server broke; reconnecting");
      since ??= now;
      if (now - since > GIVE_UP_MS) {
        const message = `the server has been away for ${durationText(GIVE_UP_MS)}; the job may go on without it`;
        const hint = `when the server is back: \`exclave job show ${job}\`, \`exclave job logs ${job}\``;
        throw new CliProblem("unreachable", message, { hint });
      }
      await sleep(pauseMs, undefined, { signal });
      pauseMs = Math.min(pauseMs * 2, BACKOFF_MAX_MS);
    },
  };
}

/** The log as it is now. */
export async function writeLog(cli: Cli, client: Client, job: string): Promise<void> {
  const { signal } = cli.invocation;
  const query = { follow: "false" };
  for await (const chunk of client.bytes(getJobLog, { params: { job }, query, signal })) {
    cli.writeLog(chunk);
  }
}

/** Ends as the job ended: silently when well, with its own exit code or its failure otherwise. */
export function endAs(job: JobView): void {
  if (job.exitCode !== null && job.exitCode !== 0) throw new ExitWith(job.exitCode);
  if (job.state === "succeeded") return;
  throw new CliProblem("failed", `the ${job.operation} ended as ${job.state}: ${failureText(job)}`);
}

/** Once, after a silence: what the job waits for. */
async function tellWhyItIsQuiet(
  cli: Cli,
  client: Client,
  id: string,
  signal: AbortSignal,
): Promise<void> {
  try {
    await sleep(QUIET_MS, undefined, { signal });
    const job = await client.call(getJob, { params: { job: id }, signal });
    if (job.state === "accepted")
      cli.say(`job ${id} waits for its turn: few log and debug jobs run in an install at a time`);
    else if (job.state !== "running")
      cli.say(`job ${id} is ${job.state}; waiting for the install's agent`);
    if (job.unreachableSince !== null)
      cli.say("the install's agent is silent; the job may well be running");
  } catch {
    // A remark is not worth failing for; the log itself reports what goes wrong.
  }
}
