// Long-running programs that components left in the install say so in `run/<name>.json`. They come
// back with the sandbox and go with it; nobody but their component's plugin starts or ends them
// otherwise.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { identifyProcess, isRunning, ProcessIdentity, writeDurably, z } from "@exclave/plugin-sdk";
import { stopProcess } from "./process-record.ts";

const RunEntry = z.looseObject({
  ...ProcessIdentity.shape,
  name: z.string(),
  argv: z.tuple([z.string()], z.string()),
  cwd: z.string(),
});
type RunEntry = z.infer<typeof RunEntry>;

export interface RunEntryOptions {
  readonly directory: string;
  readonly logs: string;
  readonly environment: Readonly<Record<string, string>>;
  readonly log: (message: string) => void;
}

/** Starts again what is on record and not running: after a stop, or a restart of the machine. */
export async function startRunEntries(options: RunEntryOptions): Promise<void> {
  for (const { path, entry } of await readRunEntries(options)) {
    if (isRunning(entry)) continue;
    try {
      await startRunEntry(path, entry, options);
      options.log(`started ${entry.name} again`);
    } catch (reason) {
      // One that cannot start must not keep the others down; its status job reports it.
      options.log(`cannot start ${entry.name} again: ${String(reason)}`);
    }
  }
}

async function startRunEntry(
  path: string,
  entry: RunEntry,
  { logs, environment }: RunEntryOptions,
): Promise<void> {
  const [file, ...args] = entry.argv;
  const log = openSync(join(logs, `run-${entry.name}.log`), "a", 0o600);
  try {
    const child = spawn(file, args, {
      cwd: entry.cwd,
      env: { ...environment },
      stdio: ["ignore", log, log],
      detached: true,
    });
    await once(child, "spawn");
    child.unref();
    const identity = child.pid === undefined ? undefined : identifyProcess(child.pid);
    if (!identity) throw new Error("it ended at once");
    await writeDurably(path, JSON.stringify({ ...entry, ...identity }));
  } finally {
    closeSync(log);
  }
}

/**
 * Ends everything on record; the records stay, so that the next start brings it back. A program here
 * usually looks after another one and grants that one a grace of its own, so it gets three times as
 * long: killed too early, it would leave the other one running.
 */
export async function stopRunEntries(
  options: Pick<RunEntryOptions, "directory" | "log">,
  graceMs: number,
): Promise<void> {
  const entries = await readRunEntries(options);
  await Promise.all(
    entries.map(async ({ entry }) => {
      const inTime = await stopProcess(entry, { graceMs: 3 * graceMs, isGroup: true });
      if (!inTime) options.log(`${entry.name} did not end by itself and was killed`);
    }),
  );
}

async function readRunEntries({
  directory,
  log,
}: Pick<RunEntryOptions, "directory" | "log">): Promise<{ path: string; entry: RunEntry }[]> {
  const names = await readdir(directory).catch(() => []);
  const files = names.filter((name) => name.endsWith(".json")).toSorted();
  const found = await Promise.all(
    files.map(async (name) => {
      const path = join(directory, name);
      try {
        return { path, entry: RunEntry.parse(JSON.parse(await readFile(path, "utf8"))) };
      } catch (reason) {
        log(`cannot read ${name}: ${String(reason)}`);
        return undefined;
      }
    }),
  );
  return found.flatMap((entry) => entry ?? []);
}
