// The supervisor of a local install: keeps its registry and its agent up, brings back the programs
// that components left running, and takes all of it down when asked.

import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { Failure } from "@exclave/plugin-sdk";
import { type Home, readContract } from "./home.ts";
import { type Keeping, keepUp } from "./keep-up.ts";
import { becomeOnly } from "./process-record.ts";
import { startRunEntries, stopRunEntries } from "./run-entries.ts";
import { childRecord, GRACE_MS, supervisorRecord } from "./stop-install.ts";
import { stopJobs } from "./stop-jobs.ts";
import { makeKeys } from "./token-keys.ts";

export interface SuperviseOptions {
  readonly home: Home;
  /** What the programs see; nothing else is inherited. */
  readonly environment: Readonly<Record<string, string>>;
  readonly log: (message: string) => void;
  readonly graceMs?: number;
}

export interface Supervision {
  /** Starts registry and agent anew, from the programs that lie in the home now. */
  restart(): Promise<void>;
  /** Leaves nothing running. */
  stop(): Promise<void>;
}

const KEYS_LOOK_MS = 3_000;

/** A registry without its keys lets nobody in, and one that starts without them ends at once. */
async function watchKeys(
  home: Home,
  registry: Pick<Keeping, "restart">,
  log: (message: string) => void,
): Promise<void> {
  try {
    if (!(await makeKeys(home))) return;
    log("a key of the registry was gone; there is a new one, and the registry reads it");
    await registry.restart();
  } catch (reason) {
    log(`the registry's keys cannot be looked at: ${String(reason)}`);
  }
}

/** Undefined when the install is already looked after by another process. */
export async function superviseInstall(
  options: SuperviseOptions,
): Promise<Supervision | undefined> {
  const { home, environment, log, graceMs = GRACE_MS } = options;
  const contract = await readContract(home);
  if (!contract) throw new Failure("not_found", `no install was set up in ${home.directory}`);
  await mkdir(home.processes, { recursive: true, mode: 0o700 });
  await mkdir(home.logs, { recursive: true, mode: 0o700 });
  if (!(await becomeOnly(supervisorRecord(home)))) return undefined;

  await makeKeys(home);
  const { url, issuer, service } = contract.registry;
  const keep = (name: "registry" | "agent", args: readonly string[]): Keeping =>
    keepUp({
      name,
      argv: [home.node, join(home.programs, `${name}.mjs`), ...args],
      cwd: home.directory,
      environment,
      logFile: join(home.logs, `${name}.log`),
      recordFile: childRecord(home, name),
      log,
      stopGraceMs: graceMs,
    });
  const place = ["--directory", home.registryContent, "--address", new URL(url).host];
  const trust = ["--auth-keys", home.tokenPublicKey, "--issuer", issuer, "--service", service];
  const registry = keep("registry", [...place, ...trust]);
  const agent = keep("agent", ["install", "--home", home.directory]);
  await startRunEntries({ directory: home.run, logs: home.logs, environment, log });
  log(`looking after install ${contract.install.name} (${contract.install.id})`);
  const watching = setInterval(() => void watchKeys(home, registry, log), KEYS_LOOK_MS);

  return {
    restart: async () => {
      await Promise.all([registry.restart(), agent.restart()]);
    },
    stop: async () => {
      clearInterval(watching);
      // The agent first, so that it starts nothing while the rest goes; jobs may still pull and write.
      await agent.stop();
      await stopJobs(home.runtime, graceMs, log);
      await stopRunEntries({ directory: home.run, log }, graceMs);
      await registry.stop();
      await rm(supervisorRecord(home), { force: true });
    },
  };
}
