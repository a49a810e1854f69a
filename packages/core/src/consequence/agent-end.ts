// What an agent remembers of a job that succeeded, beside the job itself: from which release a component
// is deployed, its outputs, and whether its health is looked up from now on.

import type { Operation } from "../manifest/manifest.ts";

export interface SucceededJob {
  readonly agent: "build" | "setup" | "install";
  readonly operation: Operation;
  /** Whether it is a component's job; a sandbox is the one component of a setup agent. */
  readonly hasComponent: boolean;
  /** Whether its manifest says how often the component's health is looked up. */
  readonly hasSchedule: boolean;
}

export interface AgentMemory {
  /** forgotten: the sandbox is gone, and the whole install with it. */
  readonly release?: "deployed" | "undeployed" | "forgotten";
  readonly outputs?: "kept" | "removed";
  readonly schedule?: "kept" | "removed";
}

export function agentMemoryAfter(job: SucceededJob): AgentMemory {
  const { agent, operation, hasComponent, hasSchedule } = job;
  if (!hasComponent || agent === "build") return {};
  const isInstall = agent === "install";
  switch (operation) {
    case "apply":
      if (!isInstall) return { release: "deployed" };
      return {
        release: "deployed",
        outputs: "kept",
        schedule: hasSchedule ? "kept" : "removed",
      };
    case "destroy":
      if (!isInstall) return { release: "forgotten" };
      return { release: "undeployed", outputs: "removed", schedule: "removed" };
    // The server asks for a status so that an agent that lost its schedule watches the component again.
    case "status":
      return isInstall && hasSchedule ? { schedule: "kept" } : {};
    default:
      return {};
  }
}
