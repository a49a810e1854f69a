// Where an install's jobs run, as its sandbox says: which driver, and what that driver needs. The agent chooses the
// driver by this and by nothing else.

import { z } from "zod";

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

export const SandboxRuntime = z.discriminatedUnion("type", [ProcessRuntime, PodmanRuntime]);
export type SandboxRuntime = z.infer<typeof SandboxRuntime>;
