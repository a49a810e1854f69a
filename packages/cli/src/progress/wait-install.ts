// Waits for an install to be as wanted, or gone, and shows what it waits for.

import { type Client, getInstall, type InstallView, listJobs } from "@exclave/api";
import { InstallName } from "@exclave/core";
import type { Display } from "../output/display.ts";
import type { Cli } from "../program/cli.ts";
import { type InstallSeen, judgeDeploy, judgeDestroy } from "./install-progress.ts";
import { type Verdict, waitFor } from "./wait.ts";

/** The sandbox is component zero. */
const SANDBOX = "sandbox";

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
    signal: cli.invocation.signal,
    now: cli.invocation.now,
    timeoutMs,
  });
  return install;
}

export async function lookAtInstall(client: Client, name: string): Promise<InstallSeen> {
  const install = await client.call(getInstall, { params: { install: InstallName.parse(name) } });
  const query = { install: name, component: SANDBOX, limit: 5 };
  const { items } = await client.call(listJobs, { query });
  return { install, jobs: items };
}
