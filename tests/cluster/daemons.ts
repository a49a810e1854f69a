// The long-running programs of a test cluster: each started with a log of its own and stopped by its own id,
// the last one first.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

export interface Daemons {
  /** Starts a program and returns once `isReady` says so. */
  start(
    program: string,
    args: readonly string[],
    isReady: () => Promise<boolean>,
    options?: { readonly name?: string; readonly path?: string },
  ): Promise<void>;
  /** SIGTERM, and SIGKILL for what does not end. */
  stop(name: string): Promise<void>;
  stopAll(): Promise<void>;
}

const READY_LIMIT_MS = 120_000;
const STOP_GRACE_MS = 10_000;

export function createDaemons(directory: string): Daemons {
  const running = new Map<string, ChildProcess>();

  return { start, stop, stopAll };

  async function start(
    program: string,
    args: readonly string[],
    isReady: () => Promise<boolean>,
    options: { readonly name?: string; readonly path?: string } = {},
  ): Promise<void> {
    const name = options.name ?? program.slice(program.lastIndexOf("/") + 1);
    const log = join(directory, `${name}.log`);
    const file = openSync(log, "a");
    const child = spawn(program, [...args], {
      cwd: directory,
      env: { PATH: options.path ?? process.env["PATH"] ?? "", HOME: directory },
      stdio: ["ignore", file, file],
      // Ctrl-C is for the tests: they stop this in order.
      detached: true,
    });
    closeSync(file);
    running.set(name, child);

    const end = Date.now() + READY_LIMIT_MS;
    while (!(await isReady().catch(() => false))) {
      const isOver = child.exitCode !== null || child.signalCode !== null;
      if (isOver || Date.now() > end) {
        const how = isOver ? "ended" : "was not ready in time";
        throw new Error(`${name} ${how}:\n${readFileSync(log, "utf8").slice(-4_000)}`);
      }
      await sleep(100);
    }
  }

  async function stop(name: string): Promise<void> {
    const child = running.get(name);
    running.delete(name);
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, "exit");
    child.kill("SIGTERM");
    const timer = setTimeout(() => child.kill("SIGKILL"), STOP_GRACE_MS);
    await ended;
    clearTimeout(timer);
  }

  async function stopAll(): Promise<void> {
    for (const name of [...running.keys()].toReversed()) await stop(name);
  }
}
