// What is known of a deployed component, from the moment its apply was made.

import { z } from "zod";
import { Digest } from "../ids.ts";
import { ArtifactRef, Effect, GeneratedSecret, Operation } from "../manifest/manifest.ts";

/** What a destroy, a log request or a debug command needs to know of what is there. */
export const Deployed = z.object({
  deployKey: Digest,
  type: z.string(),
  plugin: ArtifactRef,
  artifact: ArtifactRef.optional(),
  config: z.record(z.string(), z.unknown()),
  inputs: z.record(z.string(), z.unknown()),
  generatedSecrets: z.array(GeneratedSecret),
  dependsOn: z.array(z.string()),
  effects: z.partialRecord(Operation, Effect),
  release: z.string(),
  /** How often its agent looks at its health; absent where its plugin has no status. */
  statusEveryMs: z.int().positive().optional(),
});
export type Deployed = z.infer<typeof Deployed>;
