// Where this install's jobs run: the driver that its sandbox's contract names. Each driver's code is loaded only
// where the contract asks for it.

import { join } from "node:path";
import { JOB_CLASSES, type JobClass, type SandboxContract, unreachable } from "@exclave/core";
import {
  createProcessRuntime,
  createTreeSeals,
  type JobRuntime,
  type ProcessRuntimeOptions,
} from "@exclave/runtime";
import { createImageArchives } from "../image/image-archives.ts";
import { createRegistryImages, type RegistryImages } from "../image/image-source.ts";
import type { Notices } from "../notices.ts";

export interface RuntimePlace {
  /** The machine's search path, for jobs that are processes of it. */
  readonly path: string;
  /** Told of unpacked images that somebody changed. */
  readonly notices?: Notices | undefined;
}

export async function openRuntime(
  { runtime, run, roles }: Pick<SandboxContract, "runtime" | "run" | "roles">,
  { path, notices }: RuntimePlace,
): Promise<JobRuntime> {
  switch (runtime.type) {
    case "process": {
      const { directory } = runtime;
      const images = unpackedImages(directory, notices);
      const left = run && { runDirectory: run.directory };
      return createProcessRuntime({ directory, ...images, path, ...left });
    }
    case "podman": {
      const { createPodmanRuntime } = await import("@exclave/runtime/podman");
      return createPodmanRuntime({
        ...runtime,
        images: createImageArchives(),
        identities: identitiesIn(roles),
      });
    }
    default:
      return unreachable(runtime);
  }
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
function identitiesIn(
  roles: SandboxContract["roles"],
): Partial<Readonly<Record<JobClass, string>>> {
  const known = JOB_CLASSES.filter((name) => roles[name] !== undefined);
  return Object.fromEntries(known.map((name) => [name, roles[name]]));
}
