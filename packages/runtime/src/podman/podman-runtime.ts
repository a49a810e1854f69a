// Runs each job as a container of its own, over the engine's Docker-compatible socket: a root that cannot be
// written, no capabilities, no network unless it was given one, limits the kernel enforces, a user that is
// nobody. The engine keeps output and exit, so that any later life of the agent finds both.

import { Failure, type JobClass, JobName } from "@exclave/core";
import { makePrivate } from "@exclave/machine";
import {
  createEngineClient,
  enginePath,
  imageRepository,
  LABELS,
  ownedBy,
} from "@exclave/machine/engine";
import { z } from "zod";
import type { JobRun, JobRuntime, JobSpec, RuntimeCapabilities } from "../job-runtime.ts";
import { unenforcedLimits } from "../unenforced-limits.ts";
import { wasStarted } from "./container-run.ts";
import { createDeadlineWatch, removeContainer, stopContainer } from "./end-container.ts";
import { createEngineImages, type ImageArchives } from "./engine-images.ts";
import { followContainer } from "./follow-container.ts";
import { inspectContainer, isOver } from "./inspect-container.ts";
import { engineName, findContainer, type PodmanPlace } from "./podman-place.ts";
import { startContainer } from "./start-container.ts";

export interface PodmanRuntimeOptions {
  /** The engine's unix socket. */
  readonly socket: string;
  /** Whose jobs these are: in every name and label. Lower-case letters, digits and dashes. */
  readonly owner: string;
  readonly images: ImageArchives;
  /** Where it is written down why a job was ended. */
  readonly directory: string;
  /** `uid:gid` by class of job, where it is not the usual nobody. */
  readonly identities?: Partial<Readonly<Record<JobClass, string>>> | undefined;
  /** The engine's network for jobs that reach out. */
  readonly network?: string | undefined;
  /** A volume with the socket of the install's registry, `registry.sock`, and others. */
  readonly socketVolume?: string | undefined;
  /** How the engine maps a container's users to the machine's, such as `auto`. */
  readonly userNamespace?: string | undefined;
  /** Whether the processes of containers are in this process's own table; not so in a container. */
  readonly seesProcesses?: boolean | undefined;
  /** How long a job past its deadline may take to end by itself. */
  readonly deadlineGraceMs?: number;
}

const TYPE = "podman";
const CAPABILITIES: RuntimeCapabilities = {
  limits: {
    memoryBytes: "enforced",
    processesMax: "enforced",
    cpus: "enforced",
    logBytesMax: "watched",
    diskBytesMax: "none",
  },
  isolates: { network: true, files: true },
  identities: true,
  output: "kept",
  // The engine reads two pipes.
  streams: "apart",
  stoppedExit: "known",
  leavesPrograms: false,
};

/** Starts under way in this process, by engine and name: two runtimes over one place start a job once. */
const starting = new Map<string, Promise<void>>();

const Labelled = z.object({ Labels: z.record(z.string(), z.string()).nullish() });
const Volumes = z.object({ Volumes: z.array(Labelled).nullish() });

export function createPodmanRuntime(options: PodmanRuntimeOptions): JobRuntime {
  const { socket, owner } = options;
  const engine = createEngineClient(socket);
  const repository = imageRepository(owner);
  const place: PodmanPlace = {
    engine,
    owner,
    images: createEngineImages({ engine, archives: options.images, repository }),
    directory: options.directory,
    // A sync holds no state and can write the registry: it is nobody else's user.
    identities: { sync: "65531:65531", ...options.identities },
    network: options.network ?? "bridge",
    socketVolume: options.socketVolume,
    userNamespace: options.userNamespace,
    seesProcesses: options.seesProcesses ?? true,
    deadlineGraceMs: options.deadlineGraceMs ?? 10_000,
    gone: new Map(),
  };
  const deadlines = createDeadlineWatch(place);
  const keyOf = (name: JobName) => `${socket} ${engineName(place, name)}`;
  let swept: Promise<void> | undefined;

  return { type: TYPE, capabilities: CAPABILITIES, start, inspect, output, stop, remove, list };

  async function start(spec: JobSpec): Promise<void> {
    const key = keyOf(spec.name);
    const earlier = starting.get(key);
    if (earlier) return earlier;
    const started = launch(spec).finally(() => starting.delete(key));
    starting.set(key, started);
    return started;
  }

  async function launch(spec: JobSpec): Promise<void> {
    swept ??= makePrivate(options.directory).then(() => sweepVolumes(place));
    await swept;
    const notes = unenforcedLimits(TYPE, CAPABILITIES.limits, spec.limits);
    await startContainer(place, spec, notes);
    const container = await findContainer(place, spec.name);
    if (container && wasStarted(container)) deadlines.watch(spec.name, container);
  }

  async function inspect(name: JobName): Promise<JobRun> {
    return inspectContainer(place, name);
  }

  async function* output(
    name: JobName,
    from: number,
    signal: AbortSignal,
  ): AsyncIterable<Uint8Array> {
    const container = await findContainer(place, name);
    if (!container) throw new Failure("not_found", `there is no job ${name} here`);
    if (wasStarted(container)) deadlines.watch(name, container);
    const labels = container.Config.Labels ?? {};
    yield* followContainer(place, name, { from, labels, signal });
  }

  async function stop(name: JobName, graceMs: number): Promise<void> {
    await starting.get(keyOf(name))?.catch(() => undefined);
    await stopContainer(place, name, graceMs);
  }

  async function remove(name: JobName): Promise<void> {
    await starting.get(keyOf(name))?.catch(() => undefined);
    await removeContainer(place, name);
  }

  async function list(): Promise<JobName[]> {
    return listJobs(place);
  }
}

async function listJobs({ engine, owner }: PodmanPlace): Promise<JobName[]> {
  const path = enginePath("/containers/json", { all: 1, filters: ownedBy(owner) });
  return namesIn(await engine.read(path, z.array(Labelled)));
}

/** Volumes of jobs whose container was never made: a crash between the two left them to nobody. */
async function sweepVolumes(place: PodmanPlace): Promise<void> {
  const { engine, owner } = place;
  const path = enginePath("/volumes", { filters: ownedBy(owner) });
  const { Volumes: found } = await engine.read(path, Volumes);
  const there = new Set(await listJobs(place));
  for (const name of namesIn(found ?? [])) {
    if (!there.has(name) && (await isOver(place, name))) await removeContainer(place, name);
  }
}

function namesIn(found: readonly z.infer<typeof Labelled>[]): JobName[] {
  const names = found.map(({ Labels }) => JobName.safeParse(Labels?.[LABELS.job]).data);
  return names.filter((name) => name !== undefined).toSorted();
}
