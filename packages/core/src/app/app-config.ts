// `exclave.yaml`: what a vendor writes about an app, and the value it becomes. One schema is the
// source of the checks, of the types and of the JSON Schema for editors.

import { z } from "zod";
import { AppName, ComponentName, ComponentType } from "../ids.ts";
import { type Limits, LimitsDeclaration } from "../manifest/job-limits.ts";
import { Network } from "../manifest/manifest.ts";

/** Inputs and secrets are read as `inputs.<name>`, so they are spelt as CEL spells identifiers. */
const Identifier = z
  .string()
  .regex(
    /^[A-Za-z_][A-Za-z0-9_]{0,62}$/,
    "must be letters, digits and underscores, starting with a letter",
  );

const Source = z
  .string()
  .min(1)
  .refine((path) => !path.startsWith("/") && !path.split("/").includes(".."), {
    message: "must be a path inside the directory of exclave.yaml",
  });

export const InputDeclaration = z.strictObject({
  name: Identifier.describe("How expressions name it: inputs.<name>"),
  description: z.string().optional(),
  type: z.enum(["string", "number", "boolean"]).default("string"),
  required: z.boolean().default(false).describe("Whether an install cannot be without a value"),
  default: z.union([z.string(), z.number(), z.boolean()]).optional(),
});
export type InputDeclaration = z.infer<typeof InputDeclaration>;

export const SecretDeclaration = z.strictObject({
  name: Identifier.describe("How expressions name it: secrets.<name>"),
  description: z.string().optional(),
  required: z.boolean().default(false),
  generate: z
    .strictObject({
      bytes: z.int().min(8).max(1024).default(32),
      encoding: z.enum(["hex", "base64url"]).default("hex"),
    })
    .optional()
    .describe("Made in the install when it has none, and never leaves it"),
});
export type SecretDeclaration = z.infer<typeof SecretDeclaration>;

export const SandboxChoice = z.strictObject({
  use: z.string().min(1).describe("Which sandbox an install of this app gets"),
  vars: z.record(z.string(), z.unknown()).default({}).describe("The sandbox's own inputs"),
});
export type SandboxChoice = z.infer<typeof SandboxChoice>;

export const PluginDeclaration = z.strictObject({
  type: ComponentType.describe("The component type this plugin brings"),
  source: Source.describe("A directory with a plugin.json"),
});
export type PluginDeclaration = z.infer<typeof PluginDeclaration>;

/** What the install does by itself about a component that is deployed and not well. */
export const Repair = z.enum(["auto", "health", "off"]);
export type Repair = z.infer<typeof Repair>;

/** Everything else a component says is its plugin's business. */
export const ComponentDeclaration = z.looseObject({
  name: ComponentName,
  type: ComponentType.describe("Which plugin deploys it"),
  source: Source.optional().describe("What it is built from"),
  dependsOn: z.array(ComponentName).default([]).describe("What must be deployed before it"),
  statusEverySeconds: z
    .int()
    .min(5)
    .max(86_400)
    .optional()
    .describe("How often its health is looked up"),
  limits: LimitsDeclaration.optional().describe("What one of its jobs may use"),
  network: Network.optional().describe(
    "What its jobs reach beside the install's registry: none (the default) or outbound; sandboxes with containers enforce it",
  ),
  repair: Repair.optional().describe(
    "When it is applied again by itself: health (the default), when it is missing or degraded; auto, when it drifted too; off, never",
  ),
});
export type ComponentDeclaration = z.infer<typeof ComponentDeclaration>;

export const RollbackDeclaration = z.strictObject({
  releases: z
    .int()
    .min(0)
    .max(100)
    .default(1)
    .describe("How many releases back an install may go from this one; 0 for none"),
});
export type RollbackDeclaration = z.infer<typeof RollbackDeclaration>;

export const AppDeclaration = z.strictObject({
  app: AppName.describe("The app's name"),
  description: z.string().optional(),
  sandbox: SandboxChoice.default({ use: "local", vars: {} }),
  inputs: z.array(InputDeclaration).default([]),
  secrets: z.array(SecretDeclaration).default([]),
  rollback: RollbackDeclaration.default({ releases: 1 }),
  plugins: z.array(PluginDeclaration).default([]),
  components: z.array(ComponentDeclaration).min(1),
});

export interface ComponentConfig {
  readonly name: ComponentName;
  readonly type: ComponentType;
  readonly source?: string;
  /** As written. */
  readonly dependsOn: readonly ComponentName[];
  readonly statusEverySeconds?: number;
  readonly limits?: Limits;
  readonly network?: Network;
  readonly repair?: Repair;
  /** The plugin's keys, expressions unevaluated. */
  readonly config: Readonly<Record<string, unknown>>;
  /** What its expressions read. */
  readonly uses: {
    readonly components: readonly ComponentName[];
    readonly inputs: readonly string[];
    readonly secrets: readonly string[];
  };
  /** Everything that must be deployed before it: as written and as read. */
  readonly needs: readonly ComponentName[];
}

/** A checked app: names are unique, references lead somewhere, and there is an order. */
export interface AppConfig {
  readonly app: AppName;
  readonly description?: string;
  readonly sandbox: SandboxChoice;
  readonly inputs: readonly InputDeclaration[];
  readonly secrets: readonly SecretDeclaration[];
  readonly rollback: RollbackDeclaration;
  readonly plugins: readonly PluginDeclaration[];
  readonly components: readonly ComponentConfig[];
}

/** A component's own keys; all others belong to its plugin. */
export const COMPONENT_KEYS: readonly string[] = Object.keys(ComponentDeclaration.shape);

/** The plugin's part of what a component says. */
export function configOf(component: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(component).filter(([key]) => !COMPONENT_KEYS.includes(key)),
  );
}
