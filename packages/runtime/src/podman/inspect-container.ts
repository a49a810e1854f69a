// What is known of a job, from the engine and the machine. Two things engines do not always tell are found
// out here and written down, so that every later look says the same: that the kernel killed for want of
// memory, and that a container vanished together with what watched over it.

import { readFile } from "node:fs/promises";
import { Failure, type JobName } from "@exclave/core";
import { enginePath, LABELS } from "@exclave/machine/engine";
import { z } from "zod";
import type { JobRun } from "../job-runtime.ts";
import { processTable } from "../process/process-table.ts";
import { type Container, jobRunOf, type Verdict } from "./container-run.ts";
import { findContainer, type PodmanPlace, readVerdict, writeVerdict } from "./podman-place.ts";

/** An engine writes the end down within moments; what is gone for longer was seen by nobody. */
const VANISHED_MS = 3_000;

export async function inspectContainer(place: PodmanPlace, name: JobName): Promise<JobRun> {
  const container = await findContainer(place, name);
  if (!container) {
    place.gone.delete(name);
    return { kind: "absent" };
  }
  const verdict = await readVerdict(place, name);
  const run = jobRunOf(container, verdict);
  const found = verdict ? undefined : await findOut(place, name, container, run);
  if (!found) return run;
  await writeVerdict(place, name, found);
  return jobRunOf(container, found);
}

export async function isOver(place: PodmanPlace, name: JobName): Promise<boolean> {
  const { kind } = await inspectContainer(place, name);
  return kind === "exited" || kind === "absent";
}

async function findOut(
  place: PodmanPlace,
  name: JobName,
  container: Container,
  run: JobRun,
): Promise<Verdict | undefined> {
  if (run.kind === "running") {
    return (await isVanished(place, name, container)) ? VANISHED : undefined;
  }
  if (run.kind !== "exited" || run.exit.kind !== "signal" || run.exit.signal !== "SIGKILL") {
    return undefined;
  }
  // That it was this one, nobody can say for sure; an engine that tells says so itself.
  const before = Number(container.Config.Labels?.[LABELS.memoryKills] || Number.NaN);
  return processTable.memoryKills() > before ? { kind: "out-of-memory" } : run.exit;
}

const VANISHED: Verdict = {
  kind: "lost",
  because: "its container is gone, and so is what watched over it",
};

async function isVanished(place: PodmanPlace, name: JobName, container: Container) {
  if (await (place.seesProcesses ? isAlive(container) : isListed(place, container))) {
    place.gone.delete(name);
    return false;
  }
  const since = place.gone.get(name) ?? performance.now();
  place.gone.set(name, since);
  return performance.now() - since >= VANISHED_MS;
}

/**
 * Where its processes are not ours to see, the engine lists them; Podman lists nothing at all of a container that
 * vanished. An engine that refuses the question finds out by itself.
 */
async function isListed({ engine }: PodmanPlace, { Id }: Container): Promise<boolean> {
  const path = enginePath(`/containers/${Id}/top`, { ps_args: "pid" });
  try {
    return (await engine.find(path, z.unknown())) !== undefined;
  } catch (reason) {
    if (reason instanceof Failure && reason.details.status !== undefined) return true;
    throw reason;
  }
}

/** By its cgroup: the same number may be somebody else's process by now. */
async function isAlive({ Id, State: { Pid } }: Container): Promise<boolean> {
  if (Pid <= 0) return true;
  const cgroup = await readFile(`/proc/${Pid}/cgroup`, "utf8").catch(() => "");
  return cgroup.includes(Id);
}
