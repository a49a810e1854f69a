// What a plugin says of itself without being run: published as an annotation of its image, so that
// server, editors and forms can use it without its code.

import { z } from "zod";
import { ComponentType } from "./ids.ts";
import { Effect, PluginOperation } from "./manifest/manifest.ts";

export const PLUGIN_ANNOTATION = "dev.exclave.plugin.v1";

export const PluginOutput = z.object({
  type: z.enum(["string", "number", "boolean", "any"]).default("any"),
  description: z.string().optional(),
  sensitive: z.boolean().default(false),
});

export const PluginDescriptor = z.object({
  version: z.literal(1),
  type: ComponentType,
  description: z.string().default(""),
  /** Each operation it offers, and what running one twice would do. */
  operations: z.partialRecord(PluginOperation, z.object({ effect: Effect })),
  /** JSON Schema of the component's own keys in exclave.yaml. */
  configSchema: z.record(z.string(), z.unknown()),
  /** Keys of the configuration that change what a build makes; all others only change the apply. */
  buildKeys: z.array(z.string()).default([]),
  /** Outputs an expression may name; `open` where the component decides (Terraform). */
  outputs: z.union([z.record(z.string(), PluginOutput), z.literal("open")]),
  /** Programs it needs on the machine or in its image. */
  tools: z.array(z.string()).default([]),
  /** Whether a component of this type has source to build. */
  source: z.enum(["required", "optional", "none"]).default("optional"),
});
export type PluginDescriptor = z.infer<typeof PluginDescriptor>;

/** What each of a plugin's operations does when it is run twice. */
export function effectsOf({
  operations,
}: Pick<PluginDescriptor, "operations">): Partial<Record<PluginOperation, Effect>> {
  return Object.fromEntries(
    Object.entries(operations).map(([operation, { effect }]) => [operation, effect]),
  );
}
