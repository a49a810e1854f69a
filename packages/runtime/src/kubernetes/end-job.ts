// Ends jobs. A cluster ends one by deleting it: the pod gets SIGTERM, its grace, SIGKILL, and is forgotten with all it
// said. So the reason is written down before, and the output is kept while it ends.

import { createWriteStream } from "node:fs";
import { rename } from "node:fs/promises";
import { pipeline } from "node:stream/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { Failure, type JobName } from "@exclave/core";
import { z } from "zod";
import type { JobExit } from "../job-runtime.ts";
import { look } from "./inspect-job.ts";
import { hasStarted, type KubePod } from "./job-run.ts";
import {
  dropRecords,
  findPod,
  jobsPath,
  type KubePlace,
  readRecord,
  spoolPath,
  writeRecord,
} from "./kube-place.ts";
import { type ReadLog, readLog } from "./read-log.ts";

const LOOK_MS = 100;
/** Beyond the pod's own grace: a kubelet that answers has it gone by then. */
const GONE_MS = 120_000;

/** Returns once nothing of it runs. The grace is the pod's own; it was given when the job was made. */
export async function stopJob(place: KubePlace, name: JobName): Promise<void> {
  const { run } = await look(place, name);
  if (run.kind === "running" || run.kind === "waiting") {
    await endFor(place, name, { kind: "stopped" });
  }
}

/** Ends it for a reason that any later life will find; the first reason counts. */
export async function endFor(place: KubePlace, name: JobName, exit: JobExit): Promise<void> {
  const { run, pod } = await look(place, name);
  if (run.kind === "exited" || run.kind === "absent") return;
  if (!(await readRecord(place, name, "end"))) await writeRecord(place, name, "end", exit);
  const done = new AbortController();
  const opened = Promise.withResolvers<void>();
  const reading = { pod, signal: done.signal, onOpen: opened.resolve };
  const kept = pod && hasStarted(pod) ? keepOutput(place, name, { ...reading, pod }) : undefined;
  try {
    // A log that is not open when its pod goes is gone with it.
    await Promise.race([kept, opened.promise]);
    await deleteJob(place, name);
    await untilGone(place, name, pod);
    // The end of its log comes with the end of the pod, or not at all.
    await Promise.race([kept, sleep(5_000)]);
  } finally {
    done.abort();
    await kept;
  }
}

export async function removeJob(place: KubePlace, name: JobName): Promise<void> {
  await stopJob(place, name);
  await deleteJob(place, name);
  await dropRecords(place, name);
}

async function deleteJob(place: KubePlace, name: JobName): Promise<void> {
  await place.client.send("DELETE", jobsPath(place, name), {
    json: { apiVersion: "v1", kind: "DeleteOptions", propagationPolicy: "Background" },
    schema: z.unknown(),
    expected: [404],
  });
}

async function untilGone(place: KubePlace, name: JobName, pod: KubePod | undefined) {
  const graceMs = (pod ? place.graceSeconds("apply") : 0) * 1_000;
  const until = performance.now() + graceMs + GONE_MS;
  while (performance.now() < until) {
    if (!(await findPod(place, name))) return;
    await sleep(LOOK_MS);
  }
  throw new Failure("unavailable", `the pod of ${name} does not end, though it was deleted`);
}

/** From its first byte: whoever reads it later may ask for any. What cannot be had is left out. */
async function keepOutput(
  place: KubePlace,
  name: JobName,
  reading: Pick<ReadLog, "pod" | "signal" | "onOpen">,
): Promise<void> {
  const draft = `${spoolPath(place, name)}.part`;
  try {
    const log = readLog(place, name, { ...reading, from: 0, follow: true });
    await pipeline(untilAborted(log, reading.signal), createWriteStream(draft, { mode: 0o600 }));
    await rename(draft, spoolPath(place, name));
  } catch {
    // Rotated already, or the kubelet is away. Who followed it has what was said until now.
  }
}

async function* untilAborted(log: AsyncIterable<Buffer>, signal: AbortSignal) {
  try {
    yield* log;
  } catch (reason) {
    if (!signal.aborted) throw reason;
  }
}
