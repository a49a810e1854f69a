// Where this install's jobs run: the driver that its sandbox's contract names. Each driver's code is loaded only
// where the contract asks for it.

import { join } from "node:path";
import {
  Failure,
  JOB_CLASSES,
  type JobClass,
  KubernetesRuntime,
  PodmanRuntime,
  ProcessRuntime,
  type SandboxContract,
  type SandboxRuntime,
} from "@exclave/core";
import {
  createProcessRuntime,
  createTreeSeals,
  type JobRuntime,
  type ProcessRuntimeOptions,
} from "@exclave/runtime";
import { createImageArchives } from "../image/image-archives.ts";
import { createRegistryImages, type RegistryImages } from "../image/image-source.ts";
import type { Notices } from "../notices.ts";
import type { ClusterPlace } from "./cluster-place.ts";

export interface RuntimePlace {
  /** The machine's search path, for jobs that are processes of it. */
  readonly path: string;
  /** Told of unpacked images that somebody changed. */
  readonly notices?: Notices | undefined;
  /** The cluster this agent lives in, where it does. */
  readonly cluster?: ClusterPlace | undefined;
}

type Contract = Pick<SandboxContract, "runtime" | "run" | "roles">;

export async function openRuntime(contract: Contract, place: RuntimePlace): Promise<JobRuntime> {
  const { runtime } = contract;
  const open: Opener = OPENERS[runtime.type];
  return open(contract, place);
}

type Opener = (contract: Contract, place: RuntimePlace) => Promise<JobRuntime>;

const OPENERS: Readonly<Record<SandboxRuntime["type"], Opener>> = {
  process: async ({ runtime, run }, { path, notices }) => {
    const { directory } = ProcessRuntime.parse(runtime);
    const images = unpackedImages(directory, notices);
    const left = run && { runDirectory: run.directory };
    return createProcessRuntime({ directory, ...images, path, ...left });
  },
  podman: async ({ runtime, roles }) => {
    const { createPodmanRuntime } = await import("@exclave/runtime/podman");
    const engine = PodmanRuntime.parse(runtime);
    const images = createImageArchives();
    return createPodmanRuntime({ ...engine, images, identities: identitiesIn(roles) });
  },
  // Opened before anything else: of two copies of an agent one works.
  kubernetes: async (_contract, { cluster }) => {
    if (cluster) return cluster.runtime;
    throw new Failure("invalid", "the sandbox is a cluster's, and this agent is not in one");
  },
};

/** What the contract says of a cluster, where the agent lives in one. */
export function clusterRuntime(
  contract: Pick<SandboxContract, "runtime"> | undefined,
): KubernetesRuntime | undefined {
  return KubernetesRuntime.safeParse(contract?.runtime).data;
}

/** Images as trees on this disk, for jobs that are processes. */
export function unpackedImages(
  directory: string,
  notices: Notices | undefined,
  vendor?: Pick<RegistryImages, "origins" | "ca">,
): Pick<ProcessRuntimeOptions, "openImage" | "seals" | "onImageChanged"> {
  const seals = createTreeSeals();
  const baseLayers = join(directory, "base-layers");
  const onImageChanged = async (because: string) =>
    notices?.say({ code: "image_changed", because });
  const openImage = createRegistryImages({ baseLayers, seals, ...vendor, onImageChanged });
  return { openImage, seals, onImageChanged };
}

/** What the contract calls roles is a user where jobs are containers. */
export function identitiesIn(
  roles: SandboxContract["roles"],
): Partial<Readonly<Record<JobClass, string>>> {
  const known = JOB_CLASSES.filter((name) => roles[name] !== undefined);
  return Object.fromEntries(known.map((name) => [name, roles[name]]));
}
