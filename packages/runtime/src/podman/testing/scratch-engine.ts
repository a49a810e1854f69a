// A Podman of the tests' own: a service with its storage in a directory that goes with it, beside whatever
// else Podman does on the machine.

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

export interface ScratchEngine {
  readonly socket: string;
  /** A directory for whoever needs one. */
  readonly directory: string;
  /** The engine's own command, for looks that the API does not offer. */
  podman(...args: readonly string[]): string;
  /** kill -9 of the service; containers go on. A later call of `serve` brings it back. */
  kill(): Promise<void>;
  serve(): Promise<void>;
  close(): Promise<void>;
}

const PROGRAMS = ["podman", "runc"] as const;

/** Why no container can be started here; undefined where they can. */
export function lacksPodman(): string | undefined {
  if (process.platform !== "linux" || process.getuid?.() !== 0) return "needs Linux and root";
  const missing = PROGRAMS.filter((name) => !isOnPath(name));
  return missing.length === 0 ? undefined : `needs ${missing.join(" and ")}`;
}

export async function createScratchEngine(): Promise<ScratchEngine> {
  const directory = mkdtempSync(join(tmpdir(), "exclave-podman-"));
  // Alone in its directory: whoever stands before an engine has that one mounted.
  const socket = join(directory, "api", "engine.sock");
  mkdirSync(join(directory, "api"));
  const places = ["--root", join(directory, "root"), "--runroot", join(directory, "run")];
  const common = ["--runtime", "runc", "--cgroup-manager", "cgroupfs", ...places];
  let service: ChildProcess | undefined;
  const engine: ScratchEngine = { socket, directory, podman, kill, serve, close };
  await serve();
  return engine;

  function podman(...args: readonly string[]): string {
    return execFileSync("podman", [...common, ...args], { encoding: "utf8", stdio: "pipe" }).trim();
  }

  async function serve(): Promise<void> {
    await rm(socket, { force: true });
    const args = ["system", "service", "--time", "0", `unix://${socket}`];
    service = spawn("podman", [...common, ...args], {
      // Some versions of what watches over a container leave word of a memory kill where they stand.
      cwd: directory,
      stdio: "ignore",
    });
    for (let tries = 0; !existsSync(socket); tries++) {
      if (tries > 300 || service.exitCode !== null) throw new Error("podman does not come up");
      await sleep(50);
    }
  }

  async function kill(): Promise<void> {
    if (!service || service.exitCode !== null || service.signalCode !== null) return;
    const ended = once(service, "exit");
    service.kill("SIGKILL");
    await ended;
  }

  async function close(): Promise<void> {
    podman("rm", "--all", "--force", "--time", "0");
    podman("volume", "prune", "--force");
    await kill();
    // Its storage may still be mounted for a moment.
    podman("system", "reset", "--force");
    await rm(directory, { recursive: true, force: true, maxRetries: 5 });
  }
}

function isOnPath(program: string): boolean {
  const directories = [...(process.env.PATH ?? "").split(delimiter), "/usr/sbin", "/usr/bin"];
  return directories.some((directory) => existsSync(join(directory, program)));
}
