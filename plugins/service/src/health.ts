// Whether a service is well: its supervisor holds it, its program runs, and it answers.

import { setTimeout as sleep } from "node:timers/promises";
import { Failure, type StatusResult } from "@exclave/plugin-sdk";
import { isRunning } from "@exclave/plugin-sdk/processes";
import type { Config } from "./config.ts";
import { readSpec, readStatus, type ServiceStatus } from "./instance.ts";
import { probeHttp } from "./probe.ts";

const PROBE_TIMEOUT_MS = 5_000;
const POLL_MS = 100;
/** Without a path to ask, a program is well that has been up this long. */
const UP_MS = 1_000;
/** A program that ends this often before it was ever well will not get well by waiting. */
const RESTARTS_MAX = 3;

export async function checkHealth(
  instance: string,
  { path }: Config["health"],
): Promise<StatusResult> {
  const status = readStatus(instance);
  if (!status || !isRunning(status.supervisor)) {
    return { health: "missing", because: "its supervisor does not run" };
  }
  if (!isRunning(status.program)) {
    const ended = status.lastExit ?? "has not been started";
    return { health: "degraded", because: `the program ${ended} and is about to be started again` };
  }
  const port = readSpec(instance)?.port;
  if (path !== undefined && port !== undefined) {
    const probe = await probeHttp(port, path, PROBE_TIMEOUT_MS);
    if (!probe.ok) return { health: "degraded", because: probe.because };
  }
  const restarts = status.restarts === 0 ? "" : `, started again ${status.restarts} times`;
  return { health: "healthy", because: `process ${status.program.pid} runs${restarts}` };
}

/** Returns once it is well; fails when it cannot get well or its time is over. */
export async function waitUntilHealthy(
  instance: string,
  health: Config["health"],
  signal: AbortSignal,
): Promise<void> {
  const deadline = performance.now() + health.timeoutSeconds * 1_000;
  let program: ServiceStatus["program"];
  let upSince = performance.now();
  let because = "it was not started";
  while (performance.now() < deadline) {
    if (signal.aborted) throw new Failure("cancelled", "stopped while the service was starting");
    const status = readStatus(instance);
    if (status && status.restarts >= RESTARTS_MAX) {
      throw new Failure("tool", `the program does not stay up: it ${status.lastExit}`);
    }
    if (status?.program?.pid !== program?.pid) {
      program = status?.program;
      upSince = performance.now();
    }
    // The same program before and after the probe: another one may hold the port and answer.
    const checked = await checkHealth(instance, health);
    const isSame = readStatus(instance)?.program?.pid === program?.pid;
    const isLongEnough = health.path !== undefined || performance.now() - upSince >= UP_MS;
    if (checked.health === "healthy" && isSame && isLongEnough) return;
    because = checked.because;
    await sleep(POLL_MS);
  }
  throw new Failure("timeout", `not healthy after ${health.timeoutSeconds} s: ${because}`);
}
