// What the customer's sandbox allows, from its contract: whether commands may be run in it, and how
// much a job may use at most. The agent holds every manifest to it; no server can say otherwise.

import { z } from "zod";
import { Limits } from "../manifest/job-limits.ts";
import type { Manifest } from "../manifest/manifest.ts";

export const SandboxRules = z.object({
  debug: z.object({ exec: z.boolean().default(false) }).default({ exec: false }),
  /** The most a job may have, whatever its manifest says. */
  limits: Limits.default({}),
});
export type SandboxRules = z.infer<typeof SandboxRules>;

/** Why the sandbox does not allow this manifest, and what would have to change; undefined if it does. */
export function refuseBySandbox(
  { operation, steps }: Pick<Manifest, "operation" | "steps">,
  { debug }: SandboxRules,
): string | undefined {
  const operations = [operation, ...steps.map((step) => step.operation)];
  if (operations.includes("exec") && !debug.exec) {
    return (
      "this sandbox does not allow exec, which can read everything the component's jobs can read; " +
      "its owner allows it with `debug: { exec: true }` in the sandbox's contract"
    );
  }
  return undefined;
}
