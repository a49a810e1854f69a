// Watches over the supervisors of this machine's installs for as long as `up` runs. A supervisor keeps
// its install's registry and agent up; one that was killed is started again here. One that was stopped
// in order has taken its record away and is left alone.

import { join } from "node:path";
import { asFailure } from "@exclave/core";
import { isRunning, readHolder, readIfThere } from "@exclave/machine";
import type { Home } from "../connection/home.ts";
import {
  type LocalInstall,
  listLocalInstalls,
  startInstall,
  stopInstall,
} from "./local-installs.ts";

export interface InstallWatch {
  /** Starts every install that was set up here, and watches from then on. */
  startAll(): Promise<void>;
  /** Stops watching, then every install. */
  stop(hurry: AbortSignal): Promise<void>;
}

export interface WatchInstallsOptions {
  readonly home: Home;
  readonly environment: Readonly<Record<string, string>>;
  readonly say: (line: string) => void;
  readonly everyMs?: number;
  readonly start?: typeof startInstall;
}

const LOOK_MS = 3_000;
const BACKOFF_MAX_MS = 60_000;
/** A supervisor that stayed up this long starts with a clean slate. */
const SETTLED_MS = 60_000;

export function watchInstalls(options: WatchInstallsOptions): InstallWatch {
  const { home, environment, say, everyMs = LOOK_MS, start = startInstall } = options;
  const restarts = new Map<string, { at: number; pauseMs: number }>();
  let timer: NodeJS.Timeout | undefined;
  let looking: Promise<void> = Promise.resolve();

  return {
    async startAll() {
      const installs = await listLocalInstalls(home);
      await Promise.all(installs.map((install) => start(install, environment)));
      timer = setInterval(() => {
        looking = looking.then(look);
      }, everyMs);
    },
    async stop(hurry) {
      clearInterval(timer);
      await looking;
      const installs = await listLocalInstalls(home);
      await Promise.all(installs.map((install) => stopInstall(install, environment, hurry)));
    },
  };

  async function look(): Promise<void> {
    try {
      for (const install of await listLocalInstalls(home)) await lookAt(install);
    } catch (reason) {
      say(`installs cannot be looked at: ${asFailure(reason).message}`);
    }
  }

  async function lookAt(install: LocalInstall): Promise<void> {
    if (!(await isKilled(install))) return;
    const now = Date.now();
    const last = restarts.get(install.directory);
    if (last && now - last.at < last.pauseMs) return;
    const isSettled = !last || now - last.at > SETTLED_MS;
    const pauseMs = isSettled ? everyMs : Math.min(last.pauseMs * 2, BACKOFF_MAX_MS);
    restarts.set(install.directory, { at: now, pauseMs });
    say(`the supervisor of ${install.name} is gone; starting it again`);
    await start(install, environment);
  }
}

/** It left word of itself, and exactly that process no longer runs. */
export async function isKilled({ directory }: LocalInstall): Promise<boolean> {
  const record = join(directory, "init", "init.json");
  return (await readIfThere(record)) !== undefined && !isRunning(readHolder(record));
}
