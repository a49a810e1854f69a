// The installs of this machine: each has a supervisor of its own, which `up` starts again and stops.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { access, open, readdir, readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { parseSandboxContract } from "@exclave/core";
import type { Home } from "../connection/home.ts";

export interface LocalInstall {
  readonly id: string;
  readonly name: string;
  readonly directory: string;
}

export async function listLocalInstalls({ installsDirectory }: Home): Promise<LocalInstall[]> {
  const names = await readdir(installsDirectory).catch(() => []);
  const found = await Promise.all(names.map((name) => readInstall(join(installsDirectory, name))));
  return found.flatMap((install) => install ?? []);
}

/** What was set up there, if anything was. One whose contract is damaged has programs to stop, too. */
async function readInstall(directory: string): Promise<LocalInstall | undefined> {
  try {
    await access(join(directory, "bin", "init.mjs"));
    const contract = parseSandboxContract(await readFile(join(directory, "sandbox.json"), "utf8"));
    const named = { id: basename(directory), name: basename(directory) };
    return { ...(contract?.install ?? named), directory };
  } catch {
    return undefined;
  }
}

/** Starts the install's supervisor; one that runs already makes the new one end at once. */
export async function startInstall(
  { directory }: LocalInstall,
  environment: Readonly<Record<string, string>>,
): Promise<void> {
  const log = await open(join(directory, "log", "init.log"), "a", 0o600);
  try {
    const child = spawn(...initCommand(directory, []), {
      cwd: directory,
      env: environment,
      stdio: ["ignore", log.fd, log.fd],
      detached: true,
    });
    await once(child, "spawn");
    child.unref();
  } finally {
    await log.close();
  }
}

/** Returns once nothing of the install runs; false when its own stopping failed or was cut short. */
export async function stopInstall(
  { directory }: LocalInstall,
  environment: Readonly<Record<string, string>>,
  hurry: AbortSignal,
): Promise<boolean> {
  if (hurry.aborted) return false;
  const child = spawn(...initCommand(directory, ["--stop"]), {
    cwd: directory,
    env: environment,
    stdio: "ignore",
    detached: true,
  });
  try {
    await once(child, "exit", { signal: hurry });
    return child.exitCode === 0;
  } catch {
    child.kill("SIGKILL");
    return false;
  }
}

function initCommand(directory: string, flags: readonly string[]): [string, string[]] {
  const bin = join(directory, "bin");
  return [join(bin, "node"), [join(bin, "init.mjs"), ...flags, "--home", directory]];
}
