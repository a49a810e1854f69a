// What an engine is asked to make of a job: a container that can do nothing it was not given.

import { JOB_ENVIRONMENT } from "@exclave/core";
import type { Owner } from "@exclave/machine/engine";
import type { JobSpec } from "../job-runtime.ts";

export interface ContainerPlace {
  /** By the digest of its configuration, which pins every byte of it. */
  readonly image: string;
  readonly owner: Owner;
  readonly jobVolume: string;
  readonly stateVolume?: string | undefined;
  /** The engine's network for jobs that reach out. */
  readonly network: string;
  /** A volume with the socket of the install's registry in it, and others. */
  readonly socketVolume?: string | undefined;
  /** How the engine maps the container's users to the machine's; the engine's own way unless given. */
  readonly userNamespace?: string | undefined;
  readonly labels: Readonly<Record<string, string>>;
}

export const JOB_PATH = "/job";
export const STATE_PATH = "/state";
const SOCKETS_PATH = "/run/exclave";

const MIB = 1024 ** 2;
const FILES_MAX = 16_384;
/** Counted over all jobs of a user together; what one job may have is the engine's to count. */
const USER_PROCESSES_MAX = 32_768;
/** The engine's own helpers are in the container for a moment while it starts and stops. */
const OWN_PROCESSES = 16;

export function containerOrder(spec: JobSpec, place: ContainerPlace) {
  const { memoryBytes, processesMax, cpus } = spec.limits;
  const isOutbound = spec.network === "outbound";
  const network = isOutbound ? place.network : "none";
  const sockets = place.socketVolume;
  return {
    Image: place.image,
    User: `${place.owner.uid}:${place.owner.gid}`,
    WorkingDir: JOB_PATH,
    Env: Object.entries(environmentOf(spec, sockets !== undefined)).map(([k, v]) => `${k}=${v}`),
    Labels: place.labels,
    AttachStdin: false,
    OpenStdin: false,
    Tty: false,
    NetworkDisabled: !isOutbound,
    HostConfig: {
      NetworkMode: network,
      ReadonlyRootfs: true,
      CapDrop: ["ALL"],
      SecurityOpt: ["no-new-privileges"],
      Privileged: false,
      ...(place.userNamespace !== undefined && { UsernsMode: place.userNamespace }),
      // The first process of a container hears no signal it did not ask for; this one does, and passes it on.
      Init: true,
      RestartPolicy: { Name: "no" },
      AutoRemove: false,
      ...(memoryBytes !== undefined && { Memory: memoryBytes, MemorySwap: memoryBytes }),
      ...(processesMax !== undefined && { PidsLimit: processesMax + OWN_PROCESSES }),
      ...(cpus !== undefined && { NanoCpus: Math.round(cpus * 1e9) }),
      Ulimits: [
        { Name: "nofile", Soft: FILES_MAX, Hard: FILES_MAX },
        { Name: "nproc", Soft: USER_PROCESSES_MAX, Hard: USER_PROCESSES_MAX },
        { Name: "core", Soft: 0, Hard: 0 },
      ],
      Tmpfs: { "/tmp": `rw,nosuid,nodev,mode=1777,size=${64 * MIB}` },
      Mounts: [
        { Type: "volume", Source: place.jobVolume, Target: JOB_PATH },
        ...(place.stateVolume === undefined
          ? []
          : [{ Type: "volume", Source: place.stateVolume, Target: STATE_PATH }]),
        ...(sockets === undefined
          ? []
          : [{ Type: "volume", Source: sockets, Target: SOCKETS_PATH, ReadOnly: true }]),
      ],
    },
  };
}

/** Paths of the container; the search path is the image's own or the engine's, never the machine's. */
function environmentOf(spec: JobSpec, hasSockets: boolean): Record<string, string> {
  return {
    HOME: JOB_PATH,
    TMPDIR: `${JOB_PATH}/tmp`,
    ...spec.environment,
    [JOB_ENVIRONMENT.jobDirectory]: JOB_PATH,
    ...(spec.stateVolume !== undefined && { [JOB_ENVIRONMENT.stateDirectory]: STATE_PATH }),
    ...(hasSockets && {
      [JOB_ENVIRONMENT.registrySocket]: `${SOCKETS_PATH}/registry.sock`,
      [JOB_ENVIRONMENT.engineSocket]: `${SOCKETS_PATH}/engine.sock`,
    }),
  };
}
