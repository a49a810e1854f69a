// What a service keeps in its component's state: the files of each version it runs, an instance per
// version and configuration, the port it was given, and its own data.

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { copyFile, cp, link, mkdir, readdir, rename, rm, stat } from "node:fs/promises";
import { basename, dirname, extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { choosePort, Failure, isPortFree } from "@exclave/plugin-sdk";
import { readJson, type SupervisorProgram, writeJson } from "./instance.ts";

export function servicePlaces(stateDirectory: string) {
  return {
    programs: join(stateDirectory, "bin"),
    versions: join(stateDirectory, "versions"),
    instances: join(stateDirectory, "instances"),
    data: join(stateDirectory, "data"),
    temporary: join(stateDirectory, "tmp"),
    port: join(stateDirectory, "port.json"),
    /** Names the instance that the last successful apply left running. */
    current: join(stateDirectory, "current.json"),
  };
}

export function currentInstance(stateDirectory: string): string | undefined {
  const { current, instances } = servicePlaces(stateDirectory);
  const named = readJson(current) as { readonly instance: string } | undefined;
  return named && join(instances, named.instance);
}

export function setCurrentInstance(stateDirectory: string, directory: string): void {
  writeJson(servicePlaces(stateDirectory).current, { instance: basename(directory) });
}

export async function listInstances(stateDirectory: string): Promise<string[]> {
  const { instances } = servicePlaces(stateDirectory);
  const names = await readdir(instances).catch(() => []);
  return names.map((name) => join(instances, name));
}

/** The artifact's files in a place that stays: the job's own copy goes with the job. */
export async function keepVersion(
  stateDirectory: string,
  files: string,
  version: string,
): Promise<string> {
  const { versions } = servicePlaces(stateDirectory);
  const directory = join(versions, version);
  if (await exists(directory)) return directory;
  const draft = join(versions, `.draft-${version}`);
  await rm(draft, { recursive: true, force: true });
  await mkdir(versions, { recursive: true });
  await cp(files, draft, { recursive: true, verbatimSymlinks: true });
  await rename(draft, directory);
  return directory;
}

/** Drops every instance and version but the ones in use. */
export async function dropOthers(
  stateDirectory: string,
  instance: string,
  version: string,
): Promise<void> {
  const { versions } = servicePlaces(stateDirectory);
  for (const other of await listInstances(stateDirectory)) {
    if (other !== instance) await rm(other, { recursive: true, force: true });
  }
  for (const name of await readdir(versions)) {
    const other = join(versions, name);
    if (other !== version) await rm(other, { recursive: true, force: true });
  }
}

/**
 * Node and the supervisor, kept with the service: the image they came in may be cleaned away while
 * the service still runs. A link costs nothing; where the image lies on another disk it is used as is.
 */
export async function keepSupervisor(stateDirectory: string): Promise<SupervisorProgram> {
  const { programs } = servicePlaces(stateDirectory);
  await mkdir(programs, { recursive: true, mode: 0o700 });
  const origin = supervisorScript();
  if (extname(origin) === ".ts") return { node: process.execPath, script: origin };

  const hash = createHash("sha256").update(readFileSync(origin)).digest("hex").slice(0, 12);
  const script = join(programs, `supervisor-${hash}.mjs`);
  if (!(await exists(script))) await copyFile(origin, script);

  const versioned = join(programs, process.version);
  const node = join(versioned, "node");
  await mkdir(versioned, { recursive: true });
  if (!(await exists(node))) await link(process.execPath, node).catch(() => undefined);
  return { node: (await exists(node)) ? node : process.execPath, script };
}

/** Beside this file: as source in development, as its own bundle in the plugin's image. */
function supervisorScript(): string {
  const here = fileURLToPath(import.meta.url);
  return join(dirname(here), `supervisor${extname(here)}`);
}

/**
 * The port this service was given once; another one only if somebody else has taken it since. To be
 * asked while nothing of ours listens: whoever does would answer our health checks.
 */
export async function keepPort(stateDirectory: string, wanted: "auto" | number): Promise<number> {
  if (wanted !== "auto") {
    if (await isPortFree(wanted)) return wanted;
    throw new Failure("conflict", `port ${wanted} is taken by another program`);
  }
  const file = servicePlaces(stateDirectory).port;
  const kept = keptPort(stateDirectory, wanted);
  if (kept !== undefined && (await isPortFree(kept))) return kept;
  const port = await choosePort();
  writeJson(file, { port });
  return port;
}

export function keptPort(stateDirectory: string, wanted: "auto" | number): number | undefined {
  if (wanted !== "auto") return wanted;
  const kept = readJson(servicePlaces(stateDirectory).port) as
    | { readonly port: number }
    | undefined;
  return kept?.port;
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}
