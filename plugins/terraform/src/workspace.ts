// One operation's own working directory: a copy of the module, told where its state lies and that
// providers come from the mirrors it is given, in an install the module's own, and from nowhere else.

import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Failure, type OperationContext, type RunResult } from "@exclave/plugin-sdk";
import { keepModules, offerModules, refuseFetchedModules } from "./bundled-modules.ts";
import { copyModule, PROVIDERS } from "./component-state.ts";
import type { MadeResource } from "./made-resources.ts";
import { sourceMirrors } from "./provider-mirrors.ts";
import type { Tool } from "./tool.ts";
import {
  describeDiagnostic,
  readToolLine,
  type ToolMessage,
  unwrap,
  ValidateReport,
} from "./tool-message.ts";

export interface WorkspaceOptions {
  readonly context: OperationContext<unknown>;
  readonly tool: Tool;
  readonly files: string;
  /** Where providers are; the module's own mirror unless given. */
  readonly mirrors?: readonly string[];
  /** Absent for a build, which has no state. */
  readonly stateFile?: string;
  readonly variables: Readonly<Record<string, unknown>>;
  readonly parallelism?: number;
  /** Told of every program that works on the state. */
  readonly onStart?: (pid: number) => void;
  /** Every line the tool said, beside the job's own log. */
  readonly record: (line: string) => void;
  /** Told of every resource that was made, at once. */
  readonly onMade?: (resource: MadeResource) => void;
}

export interface Workspace {
  readonly directory: string;
  init(): Promise<void>;
  /** Makes modules that the init fetched part of the directory, and has the tool use them there. */
  bringModules(): Promise<void>;
  validate(): Promise<void>;
  /** Runs a command that speaks `-json`: says what it does while it does it. */
  act(command: Command, args: readonly string[]): Promise<number>;
  /** Takes a thing that exists into the state; undefined when done, otherwise why not. */
  take(resource: MadeResource): Promise<string | undefined>;
  /** Runs a command for its one JSON answer, which may hold secrets and is not shown. */
  ask(args: readonly string[]): Promise<unknown>;
  /** Arguments that hand the variables over; not with a plan, which has them inside. */
  readonly variableArguments: readonly string[];
}

export type Command = "plan" | "apply" | "destroy";

export async function openWorkspace(options: WorkspaceOptions): Promise<Workspace> {
  const { context, tool, stateFile, record } = options;
  const { directory, environment, variableFile } = await layOutWorkspace(options);
  const hasModuleList = await offerModules(directory, environment.TF_DATA_DIR);

  return {
    directory,
    init,
    bringModules,
    async validate() {
      judgeValidation(context, (await run(["validate", "-json"])).stdout);
    },
    act,
    take,
    ask,
    variableArguments: [`-var-file=${variableFile}`],
  };

  function run(args: readonly string[], onLine?: (line: string) => void): Promise<RunResult> {
    return context.run(tool.name, args, {
      cwd: directory,
      environment,
      // The tool finishes what it began, writes its state and ends; a second signal would cut it off.
      stopSignal: "SIGINT",
      allowExitCodes: [0, 1, 2],
      ...(onLine ? { onLine } : { echo: false }),
      ...(options.onStart && { onStart: options.onStart }),
    });
  }

  async function init(): Promise<void> {
    const isBuild = stateFile === undefined;
    const { exitCode, stdout, stderr } = await run([
      "init",
      "-no-color",
      "-input=false",
      ...(isBuild ? ["-backend=false"] : []),
      // An install has the modules it is told of: the tool checks them first and reaches for none.
      ...(!isBuild && hasModuleList ? ["-get=false"] : []),
    ]);
    record(stdout + stderr);
    if (exitCode !== 0) throw initFailure(tool, stderr || stdout);
    if (!isBuild) await refuseFetchedModules(environment.TF_DATA_DIR);
  }

  async function bringModules(): Promise<void> {
    const brought = await keepModules(environment.TF_DATA_DIR, directory);
    for (const key of brought) context.log(`the module ${key} is brought along`);
    // From here on the tool works with what an install will have.
    await offerModules(directory, environment.TF_DATA_DIR);
  }

  async function act(command: Command, args: readonly string[]): Promise<number> {
    const errors: string[] = [];
    const parallel = options.parallelism ? [`-parallelism=${options.parallelism}`] : [];
    const { exitCode } = await run(
      [command, "-json", "-input=false", ...parallel, ...args],
      (line) => {
        if (line === "") return;
        const message = readToolLine(line);
        context.log(message.text, message.level);
        record(`${message.text}\n`);
        if (message.done) report(message.done);
        if (message.error) errors.push(message.error);
      },
    );
    if (exitCode === 1 || errors.length > 0) throw actFailure(tool, command, errors);
    return exitCode;
  }

  function report({ action, kind, name, id }: NonNullable<ToolMessage["done"]>): void {
    if (action === "created") options.onMade?.({ address: name, ...(id !== undefined && { id }) });
    context.resource(action, kind, name);
  }

  async function take({ address, id }: MadeResource): Promise<string | undefined> {
    if (id === undefined) return "it has no name of its own";
    const variables = `-var-file=${variableFile}`;
    const args = ["import", "-no-color", "-input=false", "-backup=-", variables, address, id];
    const { exitCode, stdout, stderr } = await run(args);
    record(stdout + stderr);
    return exitCode === 0 ? undefined : unwrap(stderr || stdout);
  }

  async function ask(args: readonly string[]): Promise<unknown> {
    const { exitCode, stdout, stderr } = await run(args);
    if (exitCode !== 0) {
      throw new Failure("tool", `${tool.name} ${args[0]} failed: ${unwrap(stderr)}`);
    }
    return JSON.parse(stdout);
  }
}

/** Says what the tool found, and fails if the module cannot be used. */
function judgeValidation(context: OperationContext<unknown>, stdout: string): void {
  const { valid, diagnostics } = ValidateReport.parse(JSON.parse(stdout));
  for (const diagnostic of diagnostics) {
    context.log(describeDiagnostic(diagnostic), diagnostic.severity === "error" ? "error" : "warn");
  }
  if (valid) return;
  const errors = diagnostics.filter(({ severity }) => severity === "error");
  throw new Failure(
    "invalid",
    `the module is not valid: ${errors.map(describeDiagnostic).join("; ")}`,
  );
}

/** The files an operation works with, made anew. */
async function layOutWorkspace(options: WorkspaceOptions) {
  const { context, files, stateFile, variables } = options;
  const base = join(context.workDirectory, "terraform");
  const directory = join(base, "module");
  await rm(base, { recursive: true, force: true });
  await copyModule(files, directory);

  // A mirror that is not there would be an error, and no mirror at all would mean the network.
  const emptyMirror = join(base, "no-providers");
  await mkdir(emptyMirror);
  const given = options.mirrors ?? (await sourceMirrors(files));
  const cliConfig = await context.writeFile(
    join("terraform", "cli.tfrc"),
    installation([...given, emptyMirror]),
  );
  // In a file, not in arguments: values hold secrets and a process list is no place for them.
  const variableFile = await context.writeFile(
    join("terraform", "variables.tfvars.json"),
    JSON.stringify(variables),
  );
  if (stateFile !== undefined) {
    const backend = { terraform: { backend: { local: { path: stateFile } } } };
    await writeFile(join(directory, "exclave_override.tf.json"), JSON.stringify(backend));
  }
  const environment = {
    CHECKPOINT_DISABLE: "1",
    TF_CLI_CONFIG_FILE: cliConfig,
    TF_DATA_DIR: join(base, "data"),
    TF_IN_AUTOMATION: "1",
    TF_INPUT: "0",
  };
  return { directory, environment, variableFile };
}

/** What the tool says of a module it does not have as it wants it, and may not fetch. */
const MODULE_LACKING =
  /Error: Module (?:not installed|source has changed|version requirements have changed) .*?module "([^"]+)"/;

export function initFailure(tool: Tool, text: string): Failure {
  const said = unwrap(text);
  const module = MODULE_LACKING.exec(said)?.[1];
  if (module !== undefined) {
    const message = `the module ${module} was not brought along by the build as ${tool.name} asks for it; build again with ${tool.name}`;
    return new Failure("invalid", message, { cause: said });
  }
  const missing = /provider ([\w.-]+\/[\w.-]+\/[\w.-]+) was not found/.exec(said)?.[1];
  const [, locked] = /locked provider ([\w.-]+\/[\w.-]+\/[\w.-]+ \S+)/.exec(said) ?? [];
  if (locked !== undefined && /does not match configured version constraint/.test(said)) {
    const message = `the lock file names ${locked}, which the module's own constraints do not allow`;
    return new Failure("invalid", message, { cause: said });
  }
  const wanted = missing ?? locked;
  if (wanted !== undefined) {
    const message = `the provider ${wanted} does not come with the module; put it under ${PROVIDERS}, or name it in the lock file and have it in a mirror of the builder`;
    return new Failure("invalid", message, { cause: said });
  }
  return new Failure("invalid", `the module cannot be initialised: ${said}`);
}

export function actFailure(tool: Tool, command: Command, errors: readonly string[]): Failure {
  const all = errors.join("; ");
  if (/saved plan is stale/i.test(all)) {
    return new Failure("conflict", "the state moved on since the plan; plan again", { cause: all });
  }
  if (/plan file was created by|saved plan was created by|cannot be applied by/i.test(all)) {
    const message = `the plan was made by another version than ${tool.name} ${tool.version}; plan again`;
    return new Failure("conflict", message, { cause: all });
  }
  if (/acquiring the state lock/i.test(all)) {
    const message = "the state is locked by a program that Exclave did not start";
    return new Failure("conflict", message, { cause: all });
  }
  return new Failure("tool", `${tool.name} ${command} failed: ${all || "it did not say why"}`);
}

function installation(mirrors: readonly string[]): string {
  const blocks = mirrors.map((path) => `  filesystem_mirror {\n    path = ${hcl(path)}\n  }\n`);
  return `provider_installation {\n${blocks.join("")}}\n`;
}

/** A quoted string in the tool's own language. */
function hcl(text: string): string {
  return JSON.stringify(text).replaceAll("${", "$${").replaceAll("%{", "%%{");
}
