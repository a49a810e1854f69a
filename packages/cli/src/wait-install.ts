// Waits for an install to be as wanted, or gone, and shows what it waits for.

import { type Client, getInstall, type InstallView, type JobView, listJobs } from "@exclave/api";
import { InstallName } from "@exclave/core";
import type { Cli } from "./cli.ts";
import type { Display } from "./display.ts";
import { type InstallSeen, judgeDeploy, judgeDestroy } from "./install-progress.ts";
import { type Verdict, waitFor } from "./wait.ts";

export function waitForDeploy(cli: Cli, client: Client, name: string, timeoutMs: number) {
  return waitForInstall(cli, client, { name, timeoutMs, judge: judgeDeploy });
}

export function waitForDestroy(cli: Cli, client: Client, name: string, timeoutMs: number) {
  return waitForInstall(cli, client, { name, timeoutMs, judge: judgeDestroy });
}

interface InstallWait {
  readonly name: string;
  readonly timeoutMs: number;
  readonly judge: (seen: InstallSeen) => Verdict;
  readonly display?: Display;
}

export async function waitForInstall(
  cli: Cli,
  client: Client,
  { name, timeoutMs, judge, display = cli.display() }: InstallWait,
): Promise<InstallView> {
  const { install } = await waitFor({
    what: name,
    look: () => lookAtInstall(client, name),
    judge,
    display,
    signal: cli.world.signal,
    now: cli.world.now,
    timeoutMs,
  });
  return install;
}

/** The install, its own newest jobs, and the setup's jobs that are about it. */
export async function lookAtInstall(client: Client, name: string): Promise<InstallSeen> {
  const params = { install: InstallName.parse(name) };
  const install = await client.call(getInstall, { params });
  const setup = await client.call(listJobs, { query: { install: "setup", limit: 20 } });
  return { install, jobs: setup.items.filter((job) => isAbout(job, name)) };
}

function isAbout({ because, component }: JobView, name: string): boolean {
  return component === name || new RegExp(`\\b${name}\\b`).test(because);
}
