// Ends jobs: by request, at their deadline, and when they print more than anybody keeps.

import { setTimeout as sleep } from "node:timers/promises";
import { Failure, type JobName } from "@exclave/core";
import { enginePath, LABELS } from "@exclave/machine/engine";
import type { Container, Verdict } from "./container-run.ts";
import { inspectContainer, isOver } from "./inspect-container.ts";
import {
  dropVerdict,
  engineName,
  type PodmanPlace,
  readVerdict,
  writeVerdict,
} from "./podman-place.ts";

const LOOK_MS = 50;
const RETRY_MS = 2_000;
const REMOVE_GRACE_MS = 5_000;
const KILL_MS = 60_000;
const TIMER_MS_MAX = 2 ** 31 - 1;

/** SIGTERM to its first process, which passes it on; SIGKILL to all of it after the grace. */
export async function stopContainer(
  place: PodmanPlace,
  name: JobName,
  graceMs: number,
): Promise<void> {
  const { kind } = await inspectContainer(place, name);
  // Made and never started: from now on it never will be.
  if (kind === "waiting") return writeVerdict(place, name, { kind: "stopped" });
  if (kind !== "running") return;
  await signalContainer(place, name, "SIGTERM");
  const until = performance.now() + graceMs;
  while (performance.now() < until) {
    if (await isOver(place, name)) return;
    await sleep(LOOK_MS);
  }
  await killContainer(place, name);
}

export async function removeContainer(place: PodmanPlace, name: JobName): Promise<void> {
  const { engine } = place;
  await stopContainer(place, name, REMOVE_GRACE_MS);
  const container = enginePath(`/containers/${engineName(place, name)}`, { force: 1 });
  await engine.send("DELETE", container, { expected: [404] });
  await engine.send("DELETE", `/volumes/${engineName(place, name)}`, { expected: [404] });
  await dropVerdict(place, name);
}

/** Ends it for a reason that any later life will find; the first reason counts. */
export async function endFor(
  place: PodmanPlace,
  name: JobName,
  verdict: Verdict,
  graceMs: number,
): Promise<void> {
  if (await isOver(place, name)) return;
  if (!(await readVerdict(place, name))) await writeVerdict(place, name, verdict);
  await stopContainer(place, name, graceMs);
}

export interface DeadlineWatch {
  /** Sees to it that the job ends at its deadline, counted from when the engine started it. */
  watch(name: JobName, container: Container): void;
}

/** Whoever starts or follows a job watches its deadline; while no agent lives, nobody does. */
export function createDeadlineWatch(place: PodmanPlace): DeadlineWatch {
  const watched = new Set<JobName>();
  return { watch };

  function watch(name: JobName, { Config, State }: Container): void {
    const deadlineMs = Number(Config.Labels?.[LABELS.deadlineMs]);
    if (watched.has(name) || !Number.isFinite(deadlineMs)) return;
    watched.add(name);
    schedule(name, Date.parse(State.StartedAt) + deadlineMs);
  }

  function schedule(name: JobName, at: number): void {
    const inMs = Math.min(Math.max(0, at - Date.now()), TIMER_MS_MAX);
    const timer = setTimeout(() => {
      if (Date.now() < at) return schedule(name, at);
      endFor(place, name, { kind: "deadline" }, place.deadlineGraceMs).then(
        () => watched.delete(name),
        // The engine does not answer: a deadline is not forgiven for that.
        () => schedule(name, Date.now() + RETRY_MS),
      );
    }, inMs);
    timer.unref();
  }
}

async function killContainer(place: PodmanPlace, name: JobName): Promise<void> {
  const until = performance.now() + KILL_MS;
  while (performance.now() < until) {
    await signalContainer(place, name, "SIGKILL");
    for (let looks = 0; looks < 20; looks++) {
      if (await isOver(place, name)) return;
      await sleep(LOOK_MS);
    }
  }
  throw new Failure("unavailable", `${name} does not end, though it was killed`);
}

async function signalContainer(place: PodmanPlace, name: JobName, signal: string): Promise<void> {
  const path = enginePath(`/containers/${engineName(place, name)}/kill`, { signal });
  // Gone, ended since it was looked at, or vanished behind the engine's back: the caller inspects it.
  await place.engine.send("POST", path, { expected: [404, 409, 500] });
}
