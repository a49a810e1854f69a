// Does one job: brings what the operation needs onto disk, calls the plugin, and turns what came of
// it into lines. Whatever goes wrong becomes the failure of the result; this never throws.

import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import {
  asFailure,
  createOutputBudget,
  Failure,
  type JobDocument,
  type JobLine,
  type PluginOperation,
  type RegistryAccess,
  type ResultLine,
} from "@exclave/core";
import { type ContentStore, createRegistryClient, givenAccess } from "@exclave/oci";
import { type ArtifactNeed, runOperation } from "@exclave/plugin-sdk";
import { assemble } from "./assemble.ts";
import { attachArtifact } from "./assemble-attach.ts";
import { fetchSource } from "./fetch-source.ts";
import { type LoadedPlugin, loadPlugin } from "./load-plugin.ts";
import { type Materialised, materialiseArtifact } from "./materialise-artifact.ts";
import { keepPlan, openPlan } from "./plan-store.ts";
import { builtDirectory, PLAN_FILE, runProgramPlugin } from "./program-plugin.ts";
import { pushBuild } from "./push-build.ts";
import { sync } from "./sync.ts";

export interface RunJobOptions {
  readonly document: JobDocument;
  readonly jobDirectory: string;
  readonly stateDirectory: string;
  readonly runDirectory: string;
  /** Where the plugin lies, if this image has one. */
  readonly pluginDirectory: string;
  /** Leads to the install's registry, where the runtime mounted it. */
  readonly registrySocket?: string | undefined;
  /** Leads to the sandbox's container engine, likewise. */
  readonly engineSocket?: string | undefined;
  /** What programs see: PATH, HOME, TMPDIR. */
  readonly environment: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
  readonly forwardStop: boolean;
  readonly write: (line: JobLine) => void;
}

export async function runJob(options: RunJobOptions): Promise<ResultLine> {
  const guarded = guardOutputs(options.write);
  try {
    const result = await perform({ ...options, write: guarded.write });
    guarded.throwIfRefused();
    return { type: "result", ok: true, ...result };
  } catch (reason) {
    const { code, message } = toFailure(reason, options.signal);
    return { type: "result", ok: false, failure: { code, message } };
  }
}

/** An output over a limit is not written, and fails the job at its end: nobody gets half of it. */
function guardOutputs(write: (line: JobLine) => void) {
  const budget = createOutputBudget();
  let refused: string | undefined;

  return {
    write: (line: JobLine) => {
      const because = budget.refuse(line, sizeOf(line));
      if (because === undefined) return write(line);
      refused ??= because;
      return write({ type: "log", level: "error", message: because });
    },
    throwIfRefused: () => {
      if (refused !== undefined) throw new Failure("too_large", refused);
    },
  };
}

/** Nothing but outputs is measured; one that cannot even be written down is refused by its shape. */
function sizeOf(line: JobLine): number {
  if (line.type !== "output") return 0;
  try {
    return Buffer.byteLength(JSON.stringify(line));
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}

type Result = Omit<ResultLine, "type" | "ok">;

async function perform(options: RunJobOptions): Promise<Result> {
  const { document, signal, write } = options;
  const { operation, materials, parameters } = document;

  if (operation === "sync") {
    const push = needed(document.pushTo, "registry to sync to");
    const [from, to] = [sourceRegistry(options), client(push, options)];
    await sync({ from, to, prefix: push.repository, materials, parameters, signal, write });
    return {};
  }
  if (operation === "assemble") {
    const push = needed(document.pushTo, "repository for the release");
    const { repository } = push;
    const to = client(push, options);
    if (parameters.attach !== undefined) {
      await attachArtifact({ to, repository, artifact: parameters.attach, signal, write });
      return {};
    }
    const from = sourceRegistry(options);
    await assemble({ from, to, repository, materials, parameters, signal, write });
    return {};
  }

  const plugin = await loadPlugin(options.pluginDirectory);
  if (plugin.kind === "none") {
    throw new Failure("invalid", `this image has no plugin, so it cannot do a ${operation}`);
  }
  const job = await prepare(options, plugin, operation);
  return plugin.kind === "module"
    ? runModule(job, plugin.plugin, operation)
    : runProgram(job, plugin, operation);
}

interface PreparedJob extends RunJobOptions {
  readonly workDirectory: string;
  readonly parameters: Readonly<Record<string, unknown>>;
  readonly files: string;
  readonly layout?: string;
  readonly present?: boolean;
}

async function prepare(
  options: RunJobOptions,
  plugin: LoadedPlugin,
  operation: PluginOperation,
): Promise<PreparedJob> {
  const { document, stateDirectory } = options;
  const workDirectory = join(options.jobDirectory, "work");
  for (const path of [workDirectory, stateDirectory, options.runDirectory]) {
    await mkdir(path, { recursive: true, mode: 0o700 });
  }
  const usesPlan = operation === "apply" && document.parameters.plan !== undefined;
  const parameters = usesPlan
    ? { ...document.parameters, planFile: await openPlan(stateDirectory, document.parameters.plan) }
    : document.parameters;
  const need =
    plugin.kind === "module" ? plugin.plugin.definition.artifactFor?.[operation] : undefined;
  const content = await bringContent(options, operation, workDirectory, need ?? "unpacked");
  return { ...options, ...content, workDirectory, parameters };
}

async function bringContent(
  options: RunJobOptions,
  operation: PluginOperation,
  workDirectory: string,
  need: ArtifactNeed,
): Promise<Materialised & { readonly present?: boolean }> {
  const { document, jobDirectory, signal } = options;
  const files = join(jobDirectory, operation === "build" ? "source" : "artifact/files");
  await mkdir(files, { recursive: true });
  if (operation === "build") {
    const { source } = document;
    if (source) await fetchSource({ source, directory: files, workDirectory, signal });
    return { files };
  }
  const { artifact } = document;
  if (!artifact || need === "ignored") return { files };

  const registry = sourceRegistry(options);
  if (need === "present") {
    const { repository, digest } = artifact;
    const present = (await registry.headManifest(repository, digest, { signal })) !== undefined;
    return { files, present };
  }
  return materialiseArtifact(registry, artifact, join(jobDirectory, "artifact"), signal);
}

async function runModule(
  job: PreparedJob,
  plugin: Extract<LoadedPlugin, { kind: "module" }>["plugin"],
  operation: PluginOperation,
): Promise<Result> {
  const { document } = job;
  const { build, plan, status, exitCode } = await runOperation(plugin, operation, {
    ...pick(job),
    config: document.config,
    install: document.install ?? "",
    installId: document.installId ?? "",
    app: document.app ?? "",
    component: document.component ?? "",
    job: document.job,
    attempt: document.attempt,
    ...(document.artifact && {
      artifact: {
        ...document.artifact,
        ...(job.present !== undefined && { present: job.present }),
      },
    }),
    ...(document.registry && { registryUrl: document.registry.url }),
    ...(document.engine &&
      job.engineSocket !== undefined && {
        engine: { ...document.engine, socket: job.engineSocket },
      }),
  }).catch((reason) => {
    throw pluginFailure(reason);
  });

  if (build) await push(job, build);
  if (plan) {
    const digest = await keepPlan(job.stateDirectory, plan.file);
    return { plan: { digest, risk: plan.risk, summary: plan.summary } };
  }
  if (status) return { ...status };
  return exitCode === undefined ? {} : { exitCode };
}

async function runProgram(
  job: PreparedJob,
  { plugin, directory }: Extract<LoadedPlugin, { kind: "program" }>,
  operation: PluginOperation,
): Promise<Result> {
  const {
    type: _,
    ok,
    failure,
    plan,
    ...said
  } = await runProgramPlugin({
    ...pick(job),
    plugin,
    directory,
    operation,
    config: job.document.config,
    jobDirectory: job.jobDirectory,
  });
  if (!ok) {
    throw new Failure(
      failure?.code ?? "plugin",
      failure?.message ?? `${operation} did not succeed`,
    );
  }
  if (operation === "build") {
    await push(job, { kind: "files", directory: await builtDirectory(job.workDirectory) });
  }
  if (!plan) return said;
  const digest = await keepPlan(job.stateDirectory, join(job.workDirectory, PLAN_FILE));
  return { ...said, plan: { digest, ...plan } };
}

/** What both kinds of plugin are handed. */
function pick(job: PreparedJob) {
  const { parameters, stateDirectory, runDirectory, workDirectory, files, layout } = job;
  const { environment, signal, forwardStop, write } = job;
  return {
    parameters,
    stateDirectory,
    runDirectory,
    workDirectory,
    files,
    ...(layout !== undefined && { layout }),
    environment,
    signal,
    forwardStop,
    write,
  };
}

async function push(job: PreparedJob, build: Parameters<typeof pushBuild>[0]["build"]) {
  const { document, signal, write } = job;
  const pushTo = needed(document.pushTo, "repository to push to");
  const { repository } = pushTo;
  write({ type: "progress", message: `push to ${repository}` });
  const { digest, sizeBytes } = await pushBuild({
    build,
    ...(document.registry && { registry: client(document.registry, job) }),
    materials: document.materials,
    target: client(pushTo, job),
    repository,
    signal,
  });
  const name = document.component ?? document.type ?? "build";
  write({ type: "artifact", name, repository, digest, sizeBytes });
}

function sourceRegistry(options: RunJobOptions): ContentStore {
  return client(needed(options.document.registry, "registry to read from"), options);
}

function client(
  { url, origins, ca, isOwn, ...access }: RegistryAccess,
  { registrySocket }: Pick<RunJobOptions, "registrySocket">,
): ContentStore {
  const socket = isOwn ? registrySocket : undefined;
  return createRegistryClient({ url, origins, ca, socket, ...givenAccess(access) });
}

function needed<Value>(value: Value | undefined, what: string): Value {
  if (value === undefined) throw new Failure("invalid", `the job was given no ${what}`);
  return value;
}

/** A plugin that throws something of its own has failed in its own way; that is not our bug. */
function pluginFailure(reason: unknown): Failure {
  if (reason instanceof Failure) return reason;
  const known = systemFailure(reason);
  if (known) return known;
  const message = reason instanceof Error ? reason.message : String(reason);
  return new Failure("plugin", message, { cause: reason });
}

function toFailure(reason: unknown, signal: AbortSignal): Failure {
  if (reason instanceof Failure) return reason;
  if (signal.aborted)
    return new Failure("cancelled", "the job was asked to stop", { cause: reason });
  return systemFailure(reason) ?? asFailure(reason);
}

function systemFailure(reason: unknown): Failure | undefined {
  const code = (reason as NodeJS.ErrnoException | undefined)?.code;
  if (code !== "ENOSPC" && code !== "EDQUOT") return undefined;
  return new Failure("disk_full", "there is no room left on the disk", { cause: reason });
}
