// Which class of job an operation is. Each class is somebody else to a sandbox that has identities: what a
// sync may reach a debug command may not.

import { unreachable } from "../failure.ts";
import type { Operation } from "./manifest.ts";

export const JOB_CLASSES = ["build", "sync", "plan", "apply", "debug", "sandbox"] as const;
export type JobClass = (typeof JOB_CLASSES)[number];

export function jobClassOf(operation: Operation, isSandbox = false): JobClass {
  if (isSandbox) return "sandbox";
  switch (operation) {
    case "build":
    case "assemble":
      return "build";
    case "sync":
      return "sync";
    case "plan":
    case "status":
      return "plan";
    case "apply":
    case "destroy":
      return "apply";
    case "logs":
    case "exec":
      return "debug";
    default:
      return unreachable(operation);
  }
}
