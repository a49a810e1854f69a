// A service as a container of its own, where the sandbox has an engine: the engine keeps it up, and each job asks the
// engine, through the gate, about this component's containers and no others.

import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { Failure, z } from "@exclave/plugin-sdk";
import {
  createEngineClient,
  directoryArchive,
  type EngineClient,
  enginePath,
  LABELS,
} from "@exclave/plugin-sdk/engine";
import { type Context, FILES_PATH, JOB_USER } from "./service-context.ts";
import { serviceOrder } from "./service-order.ts";

const Listed = z.array(z.object({ Id: z.string(), Names: z.array(z.string()), State: z.string() }));
export type ServiceContainer = {
  readonly id: string;
  readonly name: string;
  readonly state: string;
};

const Made = z.object({ Id: z.string() });

export function engineOf({ engine }: Context): EngineClient {
  return createEngineClient(engine.socket, { token: engine.token });
}

/** Every container of this component, whoever made it. */
export async function listServices(context: Context): Promise<ServiceContainer[]> {
  const { engine, component } = context;
  const label = [`${LABELS.owner}=${engine.owner}`, `${LABELS.component}=${component}`];
  const filters = JSON.stringify({ label });
  const found = await engineOf(context).read(
    enginePath("/containers/json", { all: 1, filters }),
    Listed,
  );
  return found.map(({ Id, Names, State }) => ({
    id: Id,
    name: (Names[0] ?? "").replace(/^\//, ""),
    state: State,
  }));
}

/** A function of what it runs, so the same wish finds the same container. */
export function serviceName(
  { engine, component, artifact, config }: Context,
  port: number,
): string {
  const { command, environment, workingDirectory, stopSeconds } = config;
  const sorted = Object.entries(environment).toSorted(([a], [b]) => (a < b ? -1 : 1));
  const { image, network } = engine;
  const what = [
    artifact?.digest,
    command,
    sorted,
    port,
    workingDirectory,
    stopSeconds,
    image,
    network,
  ];
  const key = createHash("sha256").update(JSON.stringify(what)).digest("hex").slice(0, 16);
  return `${engine.owner}-service-${component}.${key}`;
}

/** Made and given its files; not started. */
export async function makeService(context: Context, name: string, port: number): Promise<string> {
  const engine = engineOf(context);
  const labels = { [LABELS.owner]: context.engine.owner, [LABELS.component]: context.component };
  await engine.send("POST", "/volumes/create", {
    json: { Name: name, Labels: labels },
    expected: [409],
  });
  const json = serviceOrder(context, { name, labels, port });
  await engine.send("POST", enginePath("/containers/create", { name }), { json, expected: [409] });
  const { Id } = await engine.read(`/containers/${name}/json`, Made);
  await engine.send("PUT", enginePath(`/containers/${Id}/archive`, { path: FILES_PATH }), {
    archive: directoryArchive(context.files, JOB_USER),
  });
  return Id;
}

export async function startService(context: Context, name: string): Promise<void> {
  await engineOf(context).send("POST", `/containers/${name}/start`, { expected: [304] });
}

export async function stopService(context: Context, name: string): Promise<void> {
  const { stopSeconds } = context.config;
  await engineOf(context).send("POST", enginePath(`/containers/${name}/stop`, { t: stopSeconds }), {
    expected: [304, 404],
    timeoutMs: (stopSeconds + 30) * 1_000,
  });
}

/** With its files. */
export async function removeService(context: Context, name: string): Promise<void> {
  const engine = engineOf(context);
  await engine.send("DELETE", enginePath(`/containers/${name}`, { force: 1 }), { expected: [404] });
  await engine.send("DELETE", `/volumes/${name}`, { expected: [404] });
}

const State = z.object({
  Id: z.string(),
  RestartCount: z.number().default(0),
  State: z.object({ Status: z.string(), ExitCode: z.number(), StartedAt: z.string() }),
});
export type ServiceState = z.infer<typeof State>;

export async function inspectService(
  context: Context,
  name: string,
): Promise<ServiceState | undefined> {
  return engineOf(context).find(`/containers/${name}/json`, State);
}

const Exec = z.object({ Running: z.boolean(), ExitCode: z.number().nullish() });

export interface Ran {
  readonly exitCode: number;
}

/** Runs a command in the service's container; what it says goes to `onBytes`. */
export async function runIn(
  context: Context,
  name: string,
  command: readonly string[],
  { onBytes, timeoutMs }: { onBytes: (bytes: Uint8Array) => void; timeoutMs: number },
): Promise<Ran> {
  const engine = engineOf(context);
  const json = { AttachStdout: true, AttachStderr: true, Cmd: command };
  const { Id } = await engine.ask("POST", `/containers/${name}/exec`, json, Made);
  const signal = AbortSignal.any([context.signal, AbortSignal.timeout(timeoutMs)]);
  try {
    for await (const bytes of engine.output("POST", `/exec/${Id}/start`, {
      json: { Detach: false, Tty: false },
      signal,
    })) {
      onBytes(bytes);
    }
  } catch (reason) {
    if (!signal.aborted) throw reason;
    throw new Failure("timeout", `the command did not end within ${timeoutMs / 1_000} s`);
  }
  // The engine closes the stream a moment before it knows the exit.
  for (let looks = 0; looks < 100; looks++) {
    const { Running, ExitCode } = await engine.read(`/exec/${Id}/json`, Exec);
    if (!Running && typeof ExitCode === "number") return { exitCode: ExitCode };
    await sleep(50);
  }
  throw new Failure("unavailable", "the engine does not tell how the command ended");
}
