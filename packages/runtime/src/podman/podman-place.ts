// What every part of the driver works with: the engine, whose jobs these are, and how one is named there.

import { rm } from "node:fs/promises";
import { join } from "node:path";
import { type JobClass, JobName } from "@exclave/core";
import { readIfThere, writeDurably } from "@exclave/machine";
import type { EngineClient } from "@exclave/machine/engine";
import { Container, Verdict } from "./container-run.ts";
import type { EngineImages } from "./engine-images.ts";

export interface PodmanPlace {
  readonly engine: EngineClient;
  readonly owner: string;
  readonly images: EngineImages;
  /** Where verdicts lie. */
  readonly directory: string;
  readonly identities: Partial<Readonly<Record<JobClass, string>>>;
  readonly network: string;
  readonly socketVolume: string | undefined;
  readonly userNamespace: string | undefined;
  /** Whether the processes of containers are in this process's own table. */
  readonly seesProcesses: boolean;
  readonly deadlineGraceMs: number;
  /** Since when a container that its engine calls running has no process. */
  readonly gone: Map<JobName, number>;
}

/** Of the container and of the volume. Parsed again because it becomes a path. */
export function engineName({ owner }: Pick<PodmanPlace, "owner">, name: JobName): string {
  return `${owner}-${JobName.parse(name)}`;
}

export function findContainer(place: PodmanPlace, name: JobName): Promise<Container | undefined> {
  return place.engine.find(`/containers/${engineName(place, name)}/json`, Container);
}

/** Written down before the job is ended, so that any later life knows why it was. */
export async function writeVerdict(
  { directory }: PodmanPlace,
  name: JobName,
  verdict: Verdict,
): Promise<void> {
  await writeDurably(verdictFile(directory, name), JSON.stringify(verdict));
}

export async function readVerdict(
  { directory }: PodmanPlace,
  name: JobName,
): Promise<Verdict | undefined> {
  const text = await readIfThere(verdictFile(directory, name));
  return text === undefined ? undefined : Verdict.parse(JSON.parse(text));
}

export async function dropVerdict({ directory }: PodmanPlace, name: JobName): Promise<void> {
  await rm(verdictFile(directory, name), { force: true });
}

function verdictFile(directory: string, name: JobName): string {
  return join(directory, `${JobName.parse(name)}.verdict.json`);
}
