// Keeps a long-running program from the artifact up. A small supervisor holds it, which outlives both
// the job that starts it and the agent; an apply replaces it, and puts the old one back if the new one
// does not come up.

import { createHash } from "node:crypto";
import { mkdir, rm } from "node:fs/promises";
import { delimiter, join } from "node:path";
import {
  buildFromSource,
  definePlugin,
  execParameters,
  Failure,
  logsParameters,
  type OperationContext,
  type StatusResult,
} from "@exclave/plugin-sdk";
import { Config } from "./config.ts";
import {
  applyService,
  destroyService,
  serviceExec,
  serviceLogs,
  serviceStatus,
} from "./engine/service-operations.ts";
import { followLog } from "./follow-log.ts";
import { checkHealth, waitUntilHealthy } from "./health.ts";
import {
  readSpec,
  type ServiceSpec,
  type SupervisorProgram,
  startInstance,
  stopInstance,
  tailLog,
  writeSpec,
} from "./instance.ts";
import {
  currentInstance,
  dropOthers,
  keepPort,
  keepSupervisor,
  keepVersion,
  keptPort,
  listInstances,
  servicePlaces,
  setCurrentInstance,
} from "./service-state.ts";

type Context = OperationContext<Config>;

const LOG_BYTES_MAX = 10 * 1024 * 1024;

export const plugin = definePlugin({
  type: "service",
  description: "Keeps a long-running program up",
  config: Config,
  outputs: {
    url: { type: "string", description: "Where it listens", sensitive: false },
    port: { type: "number", sensitive: false },
  },
  buildKeys: ["build", "include"],
  source: "optional",
  artifactFor: { status: "ignored", logs: "ignored", exec: "ignored", destroy: "ignored" },

  async build(context) {
    const { build: command, include } = context.config;
    return buildFromSource(context, { command, include });
  },

  async apply(context) {
    if (hasEngine(context)) return applyService(context);
    const { stateDirectory, config } = context;
    const supervisor = await keepSupervisor(stateDirectory);
    const running = currentInstance(stateDirectory);
    const wanted = instanceOf(context, supervisor);
    if (running === wanted && (await isWell(context, running))) {
      context.log("it already runs this version with this configuration");
      reportOutputs(context, readSpec(running)?.port);
      return;
    }

    const versionName = context.artifact?.digest.replace(":", "-") ?? "no-files";
    const version = await keepVersion(stateDirectory, context.files, versionName);
    for (const instance of await listInstances(stateDirectory)) await stopInstance(instance);
    let port: number;
    try {
      port = await keepPort(stateDirectory, config.port);
      await mkdir(wanted, { recursive: true, mode: 0o700 });
      writeSpec(wanted, await specOf(context, supervisor, version, port));
      context.progress(`start ${config.command[0]} on port ${port}`);
      startInstance(wanted, supervisor);
      await waitUntilHealthy(wanted, config.health, context.signal);
    } catch (reason) {
      throw await putBack(context, { failed: wanted, running, supervisor, reason });
    }
    setCurrentInstance(stateDirectory, wanted);
    await dropOthers(stateDirectory, wanted, version);
    context.resource(running ? "changed" : "created", "service", context.component);
    reportOutputs(context, port);
  },

  async status(context): Promise<StatusResult> {
    if (hasEngine(context)) return serviceStatus(context);
    const { stateDirectory, config } = context;
    const instance = currentInstance(stateDirectory);
    if (!instance) return { health: "missing", because: "it was never applied" };
    return checkHealth(instance, config.health);
  },

  async logs(context) {
    if (hasEngine(context)) return serviceLogs(context);
    const { stateDirectory, parameters, signal } = context;
    const { tailLines, follow } = logsParameters(parameters);
    const instance = currentInstance(stateDirectory);
    if (!instance) throw new Failure("not_found", "it was never applied, so there is no log");
    for await (const line of followLog(instance, { tailLines, follow, signal })) context.log(line);
  },

  async exec(context) {
    if (hasEngine(context)) return serviceExec(context);
    const { command, timeoutSeconds } = execParameters(context.parameters);
    const instance = currentInstance(context.stateDirectory);
    const spec = instance && readSpec(instance);
    if (!spec)
      throw new Failure("not_found", "it was never applied, so there is nowhere to run it");
    const [program = "", ...args] = command;
    const { exitCode } = await context.run(program === "node" ? process.execPath : program, args, {
      cwd: spec.cwd,
      environment: spec.environment,
      allowExitCodes: "any",
      timeoutMs: timeoutSeconds * 1_000,
    });
    return { exitCode };
  },

  async destroy(context) {
    if (hasEngine(context)) return destroyService(context);
    const { stateDirectory } = context;
    const instances = await listInstances(stateDirectory);
    for (const instance of instances) await stopInstance(instance);
    await rm(runFile(context), { force: true });
    for (const path of Object.values(servicePlaces(stateDirectory))) {
      await rm(path, { recursive: true, force: true });
    }
    if (instances.length > 0) context.resource("destroyed", "service", context.component);
    else context.log("there was nothing to destroy");
  },
});

/** Where the sandbox has a container engine, a service is a container that the engine keeps up. */
function hasEngine(
  context: Context,
): context is Context & { readonly engine: NonNullable<Context["engine"]> } {
  return context.engine !== undefined;
}

/** An instance is a function of what it runs, so the same wish finds the same instance. */
function instanceOf({ stateDirectory, artifact, config }: Context, program: SupervisorProgram) {
  const { command, environment, port, workingDirectory, stopSeconds } = config;
  const sorted = Object.entries(environment).toSorted(([a], [b]) => (a < b ? -1 : 1));
  const what = [artifact?.digest, command, sorted, port, workingDirectory, stopSeconds, program];
  const key = createHash("sha256").update(JSON.stringify(what)).digest("hex").slice(0, 16);
  return join(servicePlaces(stateDirectory).instances, key);
}

async function specOf(
  context: Context,
  { node }: SupervisorProgram,
  version: string,
  port: number,
): Promise<ServiceSpec> {
  const { config, stateDirectory } = context;
  const { data, temporary } = servicePlaces(stateDirectory);
  for (const path of [data, temporary]) await mkdir(path, { recursive: true, mode: 0o700 });
  const cwd = join(version, config.workingDirectory);
  if (cwd !== version && !cwd.startsWith(`${version}/`)) {
    throw new Failure("invalid", "workingDirectory is outside the component's files");
  }
  const [program = "", ...args] = config.command;
  const given = Object.entries(config.environment).map(([key, value]) => [key, String(value)]);
  return {
    name: context.component,
    argv: [program === "node" ? node : program, ...args],
    cwd,
    environment: {
      PATH: [join(node, ".."), process.env.PATH ?? "/usr/bin:/bin"].join(delimiter),
      HOME: data,
      TMPDIR: temporary,
      EXCLAVE_INSTALL: context.install,
      EXCLAVE_COMPONENT: context.component,
      EXCLAVE_DATA_DIR: data,
      ...Object.fromEntries(given),
      PORT: String(port),
    },
    port,
    graceMs: config.stopSeconds * 1_000,
    logBytesMax: LOG_BYTES_MAX,
    runFile: runFile(context),
  };
}

function runFile({ runDirectory, component }: Context): string {
  return join(runDirectory, `${component}.json`);
}

async function isWell({ config }: Context, instance: string): Promise<boolean> {
  return (await checkHealth(instance, config.health)).health === "healthy";
}

function reportOutputs(context: Context, port: number | undefined): void {
  const known = port ?? keptPort(context.stateDirectory, context.config.port);
  context.output("url", `http://127.0.0.1:${known}`);
  context.output("port", known);
}

interface PutBack {
  readonly failed: string;
  readonly running: string | undefined;
  readonly supervisor: SupervisorProgram;
  readonly reason: unknown;
}

/** The new one did not come up: say what it said, and let the old one serve again. */
async function putBack(context: Context, { failed, running, supervisor, reason }: PutBack) {
  const lastLines = tailLog(failed, 20);
  await stopInstance(failed);
  for (const line of lastLines) context.log(line, "error");
  if (running && running !== failed && readSpec(running)) {
    startInstance(running, supervisor);
    context.log("the version before it was started again", "warn");
  } else {
    await rm(runFile(context), { force: true });
  }
  const failure = reason instanceof Failure ? reason : new Failure("bug", String(reason));
  const last = lastLines.at(-1);
  return last === undefined
    ? failure
    : new Failure(failure.code, `${failure.message}; its last words: ${last}`, { cause: reason });
}
