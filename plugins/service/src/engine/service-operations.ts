// The operations of a service that is a container.

import { randomInt } from "node:crypto";
import { mkdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import {
  execParameters,
  Failure,
  logsParameters,
  type StatusResult,
  writeDurably,
  z,
} from "@exclave/plugin-sdk";
import { enginePath } from "@exclave/plugin-sdk/engine";
import {
  engineOf,
  inspectService,
  listServices,
  makeService,
  removeService,
  runIn,
  type ServiceContainer,
  serviceName,
  startService,
  stopService,
} from "./service-containers.ts";
import type { Context } from "./service-context.ts";

/** Without a path to ask, a program is well that has been up this long. */
const UP_MS = 1_000;
const POLL_MS = 200;
const RESTARTS_MAX = 3;
const PORT_TRIES = 4;
const PROBE_MS = 5_000;

const Current = z.object({ name: z.string(), port: z.int() });
type Current = z.infer<typeof Current>;

export async function applyService(context: Context): Promise<void> {
  await mkdir(join(context.stateDirectory, "data"), { recursive: true, mode: 0o700 });
  const current = await readCurrent(context);
  for (let tries = 1; ; tries++) {
    const port = await portFor(context, current, tries);
    const wanted = { name: serviceName(context, port), port };
    if (current?.name === wanted.name && (await healthOf(context, wanted)).health === "healthy") {
      context.log("it already runs this version with this configuration");
      return report(context, port);
    }
    const failure = await replace(context, wanted, current);
    if (!failure) {
      context.resource(current ? "changed" : "created", "service", context.component);
      return report(context, port);
    }
    const isTaken = failure.message.includes("EADDRINUSE");
    if (!isTaken || context.config.port !== "auto" || tries >= PORT_TRIES) throw failure;
    context.log(`port ${port} is taken; trying another`, "warn");
  }
}

/** The new one beside the old one's place; undefined when it is well, and the old one is back when it is not. */
async function replace(
  context: Context,
  wanted: Current,
  current: Current | undefined,
): Promise<Failure | undefined> {
  const before = await listServices(context);
  const others = before.filter(({ name }) => name !== wanted.name);
  if (current?.name !== wanted.name) await removeService(context, wanted.name);
  context.progress(`start ${context.config.command[0]} on port ${wanted.port}`);
  await makeService(context, wanted.name, wanted.port);
  for (const { name } of others) await stopService(context, name);
  try {
    await startService(context, wanted.name);
    await waitUntilHealthy(context, wanted);
  } catch (reason) {
    return putBack(context, { wanted, current, reason });
  }
  await writeDurably(currentFile(context), JSON.stringify(wanted));
  await removeAll(context, others);
  return undefined;
}

async function putBack(
  context: Context,
  { wanted, current, reason }: { wanted: Current; current: Current | undefined; reason: unknown },
): Promise<Failure> {
  const lastLines = await tail(context, wanted.name, 20);
  for (const line of lastLines) context.log(line, "error");
  if (current?.name !== wanted.name) await removeService(context, wanted.name);
  if (current && current.name !== wanted.name && (await inspectService(context, current.name))) {
    await startService(context, current.name);
    context.log("the version before it was started again", "warn");
  }
  const failure = reason instanceof Failure ? reason : new Failure("bug", String(reason));
  const words = lastLines.find((line) => line.includes("EADDRINUSE")) ?? lastLines.at(-1);
  if (words === undefined) return failure;
  const message = `${failure.message}; its last words: ${words}`;
  return new Failure(failure.code, message, { cause: reason });
}

export async function serviceStatus(context: Context): Promise<StatusResult> {
  const current = await readCurrent(context);
  return current
    ? healthOf(context, current)
    : { health: "missing", because: "it was never applied" };
}

async function healthOf(context: Context, { name, port }: Current): Promise<StatusResult> {
  const found = await inspectService(context, name);
  if (!found) return { health: "missing", because: "its container is gone" };
  const { Status, ExitCode } = found.State;
  if (Status !== "running") {
    return {
      health: "degraded",
      because: `its container is ${Status}, with exit code ${ExitCode}`,
    };
  }
  const { path } = context.config.health;
  const problem = path === undefined ? undefined : await probe(context, name, { port, path });
  if (problem !== undefined) return { health: "degraded", because: problem };
  const restarts = found.RestartCount === 0 ? "" : `, started again ${found.RestartCount} times`;
  return { health: "healthy", because: `its container runs${restarts}` };
}

const PROBE = `const [url] = process.argv.slice(1);
fetch(url, { redirect: "manual", signal: AbortSignal.timeout(${PROBE_MS}) }).then(
  (r) => { console.log("answers " + r.status); process.exit(r.status >= 200 && r.status < 400 ? 0 : 1); },
  (e) => { console.log(e.cause?.code === "ECONNREFUSED" ? "nothing listens there" : e.message); process.exit(1); });`;

/** From inside its container: a job has no network of its own. What is wrong, in words. */
async function probe(
  context: Context,
  name: string,
  { port, path }: { readonly port: number; readonly path: string },
): Promise<string | undefined> {
  let said = "";
  const url = `http://127.0.0.1:${port}${path}`;
  const { exitCode } = await runIn(context, name, ["/exclave/bin/node", "-e", PROBE, url], {
    onBytes: (bytes) => (said += Buffer.from(bytes).toString()),
    timeoutMs: 4 * PROBE_MS,
  });
  return exitCode === 0 ? undefined : `${path} on port ${port}: ${said.trim().slice(0, 500)}`;
}

async function waitUntilHealthy(context: Context, wanted: Current): Promise<void> {
  const { health } = context.config;
  const deadline = performance.now() + health.timeoutSeconds * 1_000;
  let because = "it was not started";
  while (performance.now() < deadline) {
    if (context.signal.aborted) {
      throw new Failure("cancelled", "stopped while the service was starting");
    }
    const found = await inspectService(context, wanted.name);
    if (found && found.RestartCount >= RESTARTS_MAX) {
      throw new Failure("tool", "the program does not stay up");
    }
    const upMs = found ? Date.now() - Date.parse(found.State.StartedAt) : 0;
    const checked = await healthOf(context, wanted).catch((reason: unknown) => ({
      health: "degraded" as const,
      because: reason instanceof Error ? reason.message : String(reason),
    }));
    if (checked.health === "healthy" && (health.path !== undefined || upMs >= UP_MS)) return;
    because = checked.because;
    await sleep(POLL_MS);
  }
  throw new Failure("timeout", `not healthy after ${health.timeoutSeconds} s: ${because}`);
}

export async function serviceLogs(context: Context): Promise<void> {
  const { tailLines, follow } = logsParameters(context.parameters);
  const current = await mustBeApplied(context);
  const query = { stdout: 1, stderr: 1, tail: tailLines, follow: follow ? 1 : 0 };
  await eachLine(context, current.name, query, (line) => context.log(line));
}

export async function serviceExec(context: Context): Promise<{ exitCode: number }> {
  const { command, timeoutSeconds } = execParameters(context.parameters);
  const { name } = await mustBeApplied(context);
  const lines = createLines((line) => context.log(line));
  const ran = await runIn(context, name, command, {
    onBytes: (bytes) => lines.take(bytes),
    timeoutMs: timeoutSeconds * 1_000,
  });
  lines.end();
  return ran;
}

export async function destroyService(context: Context): Promise<void> {
  const services = await listServices(context);
  for (const { name } of services) await stopService(context, name);
  await removeAll(context, services);
  await rm(currentFile(context), { force: true });
  await rm(join(context.stateDirectory, "data"), { recursive: true, force: true });
  if (services.length > 0) context.resource("destroyed", "service", context.component);
  else context.log("there was nothing to destroy");
}

async function removeAll(context: Context, services: readonly ServiceContainer[]): Promise<void> {
  for (const { name } of services) await removeService(context, name);
}

async function mustBeApplied(context: Context): Promise<Current> {
  const current = await readCurrent(context);
  if (current) return current;
  throw new Failure("not_found", "it was never applied, so there is no container of it");
}

async function tail(context: Context, name: string, lines: number): Promise<string[]> {
  const said: string[] = [];
  const query = { stdout: 1, stderr: 1, tail: lines, follow: 0 };
  await eachLine(context, name, query, (line) => said.push(line)).catch(() => undefined);
  return said;
}

async function eachLine(
  context: Context,
  name: string,
  query: Readonly<Record<string, string | number>>,
  onLine: (line: string) => void,
): Promise<void> {
  const lines = createLines(onLine);
  const path = enginePath(`/containers/${name}/logs`, query);
  try {
    for await (const bytes of engineOf(context).output("GET", path, { signal: context.signal })) {
      lines.take(bytes);
    }
  } catch (reason) {
    if (!context.signal.aborted) throw reason;
  }
  lines.end();
}

const LINE_BYTES_MAX = 64 * 1024;

function createLines(onLine: (line: string) => void) {
  const decoder = new TextDecoder();
  let held = "";
  return {
    take(bytes: Uint8Array) {
      held += decoder.decode(bytes, { stream: true });
      const lines = held.split("\n");
      held = lines.pop() ?? "";
      for (const line of lines) onLine(line);
      if (held.length <= LINE_BYTES_MAX) return;
      onLine(held);
      held = "";
    },
    end() {
      if (held !== "") onLine(held);
      held = "";
    },
  };
}

const PORT_MIN = 20_000;
const PORT_MAX = 32_000;

/** Kept for as long as the service lives; a job sees no port of the machine, so a taken one shows at the start. */
async function portFor(
  context: Context,
  current: Current | undefined,
  tries: number,
): Promise<number> {
  const { port } = context.config;
  if (port !== "auto") return port;
  return current && tries === 1 ? current.port : randomInt(PORT_MIN, PORT_MAX);
}

function report(context: Context, port: number): void {
  context.output("url", `http://127.0.0.1:${port}`);
  context.output("port", port);
}

function currentFile({ stateDirectory }: Context): string {
  return join(stateDirectory, "current-container.json");
}

async function readCurrent(context: Context): Promise<Current | undefined> {
  const text = await readFile(currentFile(context), "utf8").catch(() => undefined);
  return text === undefined ? undefined : Current.parse(JSON.parse(text));
}
