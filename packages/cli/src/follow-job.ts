// A job's log to the screen as it grows, and how the job ended.

import { setTimeout as sleep } from "node:timers/promises";
import { type Client, cancelJob, getJob, getJobLog, type JobView } from "@exclave/api";
import type { Cli } from "./cli.ts";
import { failureText, isActive } from "./install-progress.ts";
import { CliProblem, ExitWith, isAbort } from "./problem.ts";

const QUIET_MS = 3_000;

/** Streams the log to stdout until the job has ended; Ctrl-C cancels the job. */
export async function followJob(cli: Cli, client: Client, job: JobView): Promise<JobView> {
  const { signal } = cli.world;
  const speaking = new AbortController();
  const remarks = tellWhyItIsQuiet(cli, client, job.id, AbortSignal.any([signal, speaking.signal]));
  try {
    await writeLog(cli, client, job.id, { follow: true, onBytes: () => speaking.abort() });
  } catch (reason) {
    if (isAbort(reason)) await client.call(cancelJob, { params: { job: job.id }, body: {} });
    throw reason;
  } finally {
    speaking.abort();
    await remarks;
  }
  return client.call(getJob, { params: { job: job.id } });
}

export async function writeLog(
  cli: Cli,
  client: Client,
  job: string,
  { follow, onBytes }: { readonly follow: boolean; readonly onBytes?: () => void },
): Promise<void> {
  const { signal, stdout } = cli.world;
  const query = { follow: follow ? "true" : "false" };
  for await (const chunk of client.bytes(getJobLog, { params: { job }, query, signal })) {
    onBytes?.();
    stdout.write(chunk);
  }
}

/** Ends as the job ended: silently when well, with its own exit code or its failure otherwise. */
export function endAs(job: JobView): void {
  if (job.exitCode !== null && job.exitCode !== 0) throw new ExitWith(job.exitCode);
  if (job.state === "succeeded") return;
  if (isActive(job.state)) {
    throw new CliProblem("failed", `the log of ${job.id} ended while the job is ${job.state}`, {
      hint: `look again with \`exclave job show ${job.id}\``,
    });
  }
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
    if (job.state !== "running")
      cli.say(`job ${id} is ${job.state}; waiting for the install's agent`);
    if (job.unreachableSince !== null)
      cli.say("the install's agent is silent; the job may well be running");
  } catch {
    // A remark is not worth failing for; the log itself reports what goes wrong.
  }
}
