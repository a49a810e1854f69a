// What a plugin author writes: a type, a configuration schema, the outputs, and one function per
// operation. Everything a function may touch is in the context it is handed.

import type { Effect, Health, PluginDescriptor, PluginOperation, Risk } from "@exclave/core";
import { z } from "zod";

export { z } from "zod";

export interface ComponentEngine {
  readonly socket: string;
  readonly token: string;
  /** In the name and labels of everything of this install. */
  readonly owner: string;
  /** The image that this job runs, as the engine knows it. */
  readonly image: string;
  readonly network: string;
}

export interface OperationContext<Config = Record<string, unknown>> {
  readonly config: Config;
  readonly parameters: Readonly<Record<string, unknown>>;
  /** The install's name, for people to read: another install may have it later. */
  readonly install: string;
  readonly installId: string;
  readonly app: string;
  readonly component: string;
  readonly job: string;
  readonly attempt: number;
  /** For build: the unpacked source. For everything else: the unpacked artifact, read only. */
  readonly files: string;
  /** The artifact as an OCI layout, where it is an image. */
  readonly layout?: string;
  /** The artifact by digest, as it lies in the install's registry. */
  readonly artifact?: ArtifactInRegistry;
  readonly registryUrl?: string;
  /** The sandbox's container engine, for containers of this component; absent where there is none. */
  readonly engine?: ComponentEngine;
  /** This component's own place in the install; it stays between jobs. */
  readonly stateDirectory: string;
  /** Where a long-running program leaves word of itself for the sandbox. */
  readonly runDirectory: string;
  /** The job's own place; it goes with the job. */
  readonly workDirectory: string;
  /** Fires when the job is asked to stop. */
  readonly signal: AbortSignal;

  log(message: string, level?: "debug" | "info" | "warn" | "error"): void;
  progress(message: string, done?: number, total?: number): void;
  resource(action: "created" | "changed" | "destroyed" | "read", kind: string, name: string): void;
  output(name: string, value: unknown, options?: { sensitive?: boolean }): void;
  /** Writes a file readable by the job alone, in the job's own place; returns its path. */
  writeFile(name: string, content: string): Promise<string>;
  /** Runs a program: arguments are a list, the environment is what is given and no more. */
  run(program: string, args: readonly string[], options?: RunOptions): Promise<RunResult>;
}

export interface ArtifactInRegistry {
  readonly repository: string;
  readonly digest: string;
  /** Whether it lies there; told to operations that asked to know (`artifactFor`). */
  readonly present?: boolean;
}

/**
 * What an operation needs of the artifact: its content on disk, to know that it lies in the
 * registry, or nothing at all.
 */
export type ArtifactNeed = "unpacked" | "present" | "ignored";

export interface RunOptions {
  readonly cwd?: string;
  readonly environment?: Readonly<Record<string, string>>;
  readonly input?: string;
  /** Lines are logged as they come unless this is false. */
  readonly echo?: boolean;
  /** Takes each line of output in place of the log. */
  readonly onLine?: (line: string, stream: "stdout" | "stderr") => void;
  /** Told the process id once the program runs. */
  readonly onStart?: (pid: number) => void;
  /** Exit codes that are not a failure; 0 alone unless given. */
  readonly allowExitCodes?: readonly number[] | "any";
  /** The program is stopped after this long, and that is a failure. */
  readonly timeoutMs?: number;
  /** Sent when the job is asked to stop; SIGTERM unless given (tofu wants SIGINT). */
  readonly stopSignal?: NodeJS.Signals;
}

export interface RunResult {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * What a build made: a directory the runner packs, in the format that the tools of its kind read, or
 * an OCI layout it pushes as it is.
 */
export type BuildResult =
  | { readonly kind: "files"; readonly directory: string; readonly artifactType?: string }
  | { readonly kind: "layout"; readonly directory: string; readonly digest: string }
  /** A Helm chart, Chart.yaml at its top. */
  | { readonly kind: "chart"; readonly directory: string }
  /** Kubernetes manifests. */
  | { readonly kind: "manifests"; readonly directory: string }
  | ModuleBuild
  | ImageBuild;

/** A Terraform module. In an install its providers lie below `.exclave/providers`, as a mirror. */
export interface ModuleBuild {
  readonly kind: "module";
  readonly directory: string;
  readonly providers?: readonly ProviderBuild[];
}

/** One provider in one version for one platform. */
export interface ProviderBuild {
  /** `registry.terraform.io/hashicorp/aws` */
  readonly address: string;
  readonly version: string;
  /** `linux_amd64` */
  readonly platform: string;
  /** Its archive as a registry hands it out, or a directory with what is in it. */
  readonly path: string;
}

/** A directory to become the top layer of an image. */
export interface ImageBuild {
  readonly kind: "image";
  readonly directory: string;
  /** Where in the image the directory's content lies. */
  readonly prefix: string;
  /** The name of the material that is the image below; without one the image starts empty. */
  readonly base?: string;
  /** What differs from the image below. */
  readonly config?: {
    readonly entrypoint?: readonly string[];
    readonly cmd?: readonly string[];
    readonly env?: readonly string[];
    readonly workingDir?: string;
  };
  readonly annotations?: Readonly<Record<string, string>>;
}

export interface PlanResult {
  /** The plan's bytes; the runner keeps them in the install by digest and hands them to apply. */
  readonly file: string;
  readonly risk: Risk;
  readonly summary: string;
}

export interface StatusResult {
  readonly health: Health;
  readonly because: string;
  readonly drift?: { readonly found: boolean; readonly summary: string };
}

export interface PluginDefinition<Schema extends z.ZodObject> {
  readonly type: string;
  readonly description: string;
  readonly config: Schema;
  readonly outputs: PluginDescriptor["outputs"];
  readonly buildKeys?: readonly string[];
  readonly source?: "required" | "optional" | "none";
  readonly tools?: readonly string[];
  /** Operations that need less of the artifact than its content on disk. */
  readonly artifactFor?: Partial<Record<PluginOperation, ArtifactNeed>>;
  /** What running an operation twice would do, where it differs from the usual. */
  readonly effects?: Partial<Record<PluginOperation, Effect>>;

  build?(context: OperationContext<z.infer<Schema>>): Promise<BuildResult>;
  plan?(context: OperationContext<z.infer<Schema>>): Promise<PlanResult>;
  /** `context.parameters.planFile` is the path of exactly the plan that was consented to. */
  apply?(context: OperationContext<z.infer<Schema>>): Promise<void>;
  destroy?(context: OperationContext<z.infer<Schema>>): Promise<void>;
  status?(context: OperationContext<z.infer<Schema>>): Promise<StatusResult>;
  /** `parameters`: { tailLines?: number, follow?: boolean }. Lines go out by `context.log`. */
  logs?(context: OperationContext<z.infer<Schema>>): Promise<void>;
  /** `parameters`: { command: string[] }. Returns the command's exit code. */
  exec?(context: OperationContext<z.infer<Schema>>): Promise<{ exitCode: number }>;
}

export interface Plugin {
  readonly descriptor: PluginDescriptor;
  readonly definition: PluginDefinition<z.ZodObject>;
}

const OPERATIONS = ["build", "plan", "apply", "destroy", "status", "logs", "exec"] as const;

const USUAL_EFFECT: Record<PluginOperation, Effect> = {
  build: "idempotent",
  plan: "idempotent",
  apply: "idempotent",
  destroy: "idempotent",
  status: "idempotent",
  logs: "idempotent",
  exec: "at-most-once",
};

export function definePlugin<Schema extends z.ZodObject>(
  definition: PluginDefinition<Schema>,
): Plugin {
  const offered = OPERATIONS.filter((operation) => definition[operation] !== undefined);
  const descriptor = {
    version: 1,
    type: definition.type as PluginDescriptor["type"],
    description: definition.description,
    operations: Object.fromEntries(
      offered.map((name) => [name, { effect: definition.effects?.[name] ?? USUAL_EFFECT[name] }]),
    ),
    configSchema: z.toJSONSchema(definition.config, { io: "input" }) as Record<string, unknown>,
    buildKeys: [...(definition.buildKeys ?? [])],
    outputs: definition.outputs,
    tools: [...(definition.tools ?? [])],
    source: definition.source ?? "optional",
  } satisfies PluginDescriptor;
  return { descriptor, definition };
}
