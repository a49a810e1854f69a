// Looking at jobs from a test: waits for what must come, and gives up with a reason.

import { setTimeout as sleep } from "node:timers/promises";
import type { JobName } from "@exclave/core";
import type { JobExit, JobRuntime } from "../job-runtime.ts";

const PATIENCE_MS = 30_000;

/** How the job ended, once it has. */
export async function ended(runtime: JobRuntime, name: JobName): Promise<JobExit> {
  let exit: JobExit | undefined;
  await until(async () => {
    const run = await runtime.inspect(name);
    if (run.kind === "exited") exit = run.exit;
    return exit !== undefined;
  });
  if (!exit) throw new Error(`${name} has not ended`);
  return exit;
}

/** Everything the job says from that byte on, until it ends. */
export async function outputText(runtime: JobRuntime, name: JobName, from = 0): Promise<string> {
  return collect(runtime.output(name, from, AbortSignal.timeout(PATIENCE_MS)));
}

export async function collect(
  chunks: AsyncIterable<Uint8Array>,
  onText: (soFar: string) => void = () => undefined,
): Promise<string> {
  const seen: Uint8Array[] = [];
  for await (const chunk of chunks) {
    seen.push(chunk);
    onText(Buffer.concat(seen).toString());
  }
  return Buffer.concat(seen).toString();
}

export async function until(isSo: () => Promise<boolean>): Promise<void> {
  const giveUpAt = performance.now() + PATIENCE_MS;
  while (!(await isSo())) {
    if (performance.now() > giveUpAt) throw new Error("waited in vain");
    await sleep(20);
  }
}
