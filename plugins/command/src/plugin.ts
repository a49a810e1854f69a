// Runs programs that lie in the component's artifact: a migration, a script, a one-time action. What
// the last apply printed and the outputs it named are all that stays of it.

import { appendFile, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import {
  buildFromSource,
  definePlugin,
  execParameters,
  Failure,
  lastLines,
  logsParameters,
  type OperationContext,
  resolveCommand,
  z,
} from "@exclave/plugin-sdk";

const Command = z.array(z.string()).min(1);

const Config = z.strictObject({
  build: Command.optional().describe("Run in the source before it is packed"),
  include: z.array(z.string()).optional().describe("Paths to pack; all of the source if absent"),
  apply: Command.optional().describe("Run in the artifact's files to deploy the component"),
  destroy: Command.optional().describe("Run to undo what apply did"),
  status: Command.optional().describe("Healthy if it exits with 0"),
  environment: z.record(z.string(), z.union([z.string(), z.number(), z.boolean()])).default({}),
  timeoutSeconds: z.int().positive().max(86_400).default(900),
});
type Context = OperationContext<z.infer<typeof Config>>;

/** What an apply may leave in $EXCLAVE_OUTPUTS: plain values, or a value that is to stay hidden. */
const Outputs = z.record(z.string(), z.unknown());
const SensitiveOutput = z.strictObject({ value: z.unknown(), sensitive: z.boolean() });

export const plugin = definePlugin({
  type: "command",
  description: "Runs programs from the artifact",
  config: Config,
  outputs: "open",
  buildKeys: ["build", "include"],
  source: "optional",

  async build(context) {
    const { build: command, include, timeoutSeconds } = context.config;
    const environment = environmentOf(context);
    const timeoutMs = timeoutSeconds * 1_000;
    return buildFromSource(context, { command, include, environment, timeoutMs });
  },

  async apply(context) {
    const { log, marker } = places(context);
    const outputsFile = join(context.workDirectory, "outputs.json");
    await writeFile(log, "", { mode: 0o600 });
    if (context.config.apply) {
      await runCommand(context, context.config.apply, { EXCLAVE_OUTPUTS: outputsFile }, log);
    }
    await reportOutputs(context, outputsFile);
    await writeFile(marker, JSON.stringify({ artifact: context.artifact?.digest ?? null }));
    context.resource("changed", "command", context.component);
  },

  async destroy(context) {
    const { log, marker } = places(context);
    if (context.config.destroy) await runCommand(context, context.config.destroy);
    await rm(marker, { force: true });
    await rm(log, { force: true });
    context.resource("destroyed", "command", context.component);
  },

  async status(context) {
    const applied = await readFile(places(context).marker, "utf8").catch(() => undefined);
    if (applied === undefined) return { health: "missing", because: "it was never applied" };
    const { status, timeoutSeconds } = context.config;
    if (!status) return { health: "healthy", because: "it was applied" };

    const [program, ...args] = resolveCommand(status);
    const { exitCode, stdout, stderr } = await context.run(program, args, {
      cwd: context.files,
      environment: environmentOf(context),
      timeoutMs: timeoutSeconds * 1_000,
      allowExitCodes: "any",
    });
    if (exitCode === 0)
      return { health: "healthy", because: lastLine(stdout) ?? "status exits with 0" };
    const because = lastLine(stderr) ?? lastLine(stdout) ?? `status exits with ${exitCode}`;
    return { health: "degraded", because };
  },

  async logs(context) {
    const text = await readFile(places(context).log, "utf8").catch(() => "");
    const { tailLines } = logsParameters(context.parameters);
    for (const line of lastLines(text, tailLines)) context.log(line);
  },

  async exec(context) {
    const { command, timeoutSeconds } = execParameters(context.parameters);
    const [program, ...args] = resolveCommand(command);
    const environment = environmentOf(context);
    const { exitCode } = await context.run(program, args, {
      cwd: context.files,
      environment,
      allowExitCodes: "any",
      timeoutMs: timeoutSeconds * 1_000,
    });
    return { exitCode };
  },
});

async function runCommand(
  context: Context,
  command: readonly string[],
  extra: Readonly<Record<string, string>> = {},
  keepIn?: string,
): Promise<void> {
  const [program, ...args] = resolveCommand(command);
  let kept = Promise.resolve();
  try {
    await context.run(program, args, {
      cwd: context.files,
      environment: { ...environmentOf(context), ...extra },
      timeoutMs: context.config.timeoutSeconds * 1_000,
      onLine: (line) => {
        context.log(line);
        if (keepIn) kept = kept.then(() => appendFile(keepIn, `${line}\n`));
      },
    });
  } finally {
    await kept;
  }
}

async function reportOutputs(context: Context, file: string): Promise<void> {
  const text = await readFile(file, "utf8").catch(() => undefined);
  if (text === undefined) return;
  for (const [name, value] of Object.entries(parseOutputs(text))) {
    const hidden = SensitiveOutput.safeParse(value);
    if (hidden.success)
      context.output(name, hidden.data.value, { sensitive: hidden.data.sensitive });
    else context.output(name, value);
  }
}

function parseOutputs(text: string): Record<string, unknown> {
  try {
    return Outputs.parse(JSON.parse(text));
  } catch (cause) {
    const message = "the command wrote something into $EXCLAVE_OUTPUTS that is not a JSON object";
    throw new Failure("invalid", message, { cause });
  }
}

function environmentOf(context: Context) {
  const { config, install, component, job, attempt, stateDirectory } = context;
  const given = Object.entries(config.environment).map(([key, value]) => [key, String(value)]);
  return {
    EXCLAVE_INSTALL: install,
    EXCLAVE_COMPONENT: component,
    // Fences: what a command writes elsewhere can carry which attempt wrote it.
    EXCLAVE_JOB: job,
    EXCLAVE_ATTEMPT: String(attempt),
    EXCLAVE_DATA_DIR: stateDirectory,
    ...Object.fromEntries(given),
  } as Record<string, string>;
}

/** The plugin's own files in the component's state, apart from what the commands keep there. */
function places({ stateDirectory }: Context) {
  return {
    log: join(stateDirectory, ".last-apply.log"),
    marker: join(stateDirectory, ".applied.json"),
  };
}

function lastLine(text: string): string | undefined {
  return text.trimEnd().split("\n").at(-1)?.trim() || undefined;
}
