// Where an install's jobs run, as its sandbox says: which driver, and what that driver needs. The agent chooses the
// driver by this and by nothing else.

import { z } from "zod";
import { JOB_CLASSES } from "../manifest/job-class.ts";

export const ProcessRuntime = z.looseObject({
  type: z.literal("process"),
  /** Where jobs and unpacked images lie. */
  directory: z.string(),
});

export const PodmanRuntime = z.looseObject({
  type: z.literal("podman"),
  /** The socket of a container engine that speaks Docker's API, or of what stands before one. */
  socket: z.string(),
  /** In the name and the labels of everything of this install. */
  owner: z.string().regex(/^[a-z0-9][a-z0-9-]{0,62}$/),
  /** Where it is written down why a job was ended. */
  directory: z.string(),
  /** The engine's network for jobs that reach out. */
  network: z.string().optional(),
  /** What jobs find in `/run/exclave`: the registry's socket, and others; a volume of the engine. */
  socketVolume: z.string().optional(),
  /** Whether the agent sees the processes of the engine's containers. */
  seesProcesses: z.boolean().default(false),
  /** For whom the agent signs tokens by which a job reaches its component's containers; none without. */
  engineService: z.string().optional(),
  /** How the engine maps a container's users to the machine's, where it can. */
  userNamespace: z.string().optional(),
});

const EngineRuntime = PodmanRuntime.extend({ engineService: z.string() });

/** The container engine of a sandbox whose jobs may have to do with it; undefined where there is none. */
export function engineIn(runtime: unknown): z.infer<typeof EngineRuntime> | undefined {
  return EngineRuntime.safeParse(runtime).data;
}

const KubeLabel = z.string().regex(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/);

export const KubernetesRuntime = z.looseObject({
  type: z.literal("kubernetes"),
  /** Where jobs run and nothing else is. */
  namespace: KubeLabel,
  /** The install's registry as nodes pull from it, without a scheme. */
  imageRegistry: z.string().min(1),
  /** Where the agent writes down what the cluster forgets. */
  directory: z.string(),
  /** Where jobs fetch their files from the agent: by which address, and on which port it listens. */
  document: z.object({ url: z.url({ protocol: /^https$/ }), port: z.int().min(0).max(65_535) }),
  /** Which copy of the agent works: whoever holds this Lease. */
  lease: z.object({ namespace: KubeLabel, name: KubeLabel }),
  /** The claim that holds the state of components. */
  stateClaim: KubeLabel.optional(),
  /** Classes of jobs that get a token for the cluster's API, with the rights of their account. */
  apiClasses: z.array(z.enum(JOB_CLASSES)).default(["plan", "apply", "debug"]),
});
export type KubernetesRuntime = z.infer<typeof KubernetesRuntime>;

export const SandboxRuntime = z.discriminatedUnion("type", [
  ProcessRuntime,
  PodmanRuntime,
  KubernetesRuntime,
]);
export type SandboxRuntime = z.infer<typeof SandboxRuntime>;
