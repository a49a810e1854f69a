// What a Terraform component keeps in the install, and nowhere else: its state, copies of it from
// before each apply, and the configuration that was applied last. All of it may hold secrets, so
// all of it is readable by its owner alone.

import { copyFile, cp, link, mkdir, readdir, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { Failure, writeDurably, z } from "@exclave/plugin-sdk";
import { ToolName } from "./tool.ts";

const BACKUPS_KEPT = 5;

/** Where providers that travel with the module lie, in a mirror's layout. */
export const PROVIDERS = join(".exclave", "providers");

export interface ComponentState {
  readonly directory: string;
  readonly stateFile: string;
  /** Terraform's own: it exists while some process holds the state, or held it and was killed. */
  readonly lockFile: string;
  readonly ownerFile: string;
  readonly logFile: string;
  /** What the apply under way has made so far; see made-resources.ts. */
  readonly madeFile: string;
}

export function componentState(directory: string): ComponentState {
  return {
    directory,
    stateFile: join(directory, "terraform.tfstate"),
    lockFile: join(directory, ".terraform.tfstate.lock.info"),
    ownerFile: join(directory, "lock-owner.json"),
    logFile: join(directory, "last-run.log"),
    madeFile: join(directory, "made.jsonl"),
  };
}

const Applied = z.object({
  tool: ToolName,
  version: z.string(),
  variables: z.record(z.string(), z.unknown()),
  /** False from the moment an apply begins until it has succeeded. */
  isComplete: z.boolean(),
});
export type Applied = z.infer<typeof Applied> & { readonly files: string };

export async function readApplied({ directory }: ComponentState): Promise<Applied | undefined> {
  const text = await readFile(join(directory, "applied.json"), "utf8").catch(() => undefined);
  if (text === undefined) return undefined;
  return { ...Applied.parse(JSON.parse(text)), files: join(directory, "applied") };
}

/**
 * Keeps the module beside the state, before the apply that uses it: whatever that apply makes,
 * complete or not, can be checked and destroyed with the configuration it was made from.
 */
export async function keepApplied(
  { directory }: ComponentState,
  { files, ...applied }: Applied,
): Promise<void> {
  const kept = join(directory, "applied");
  if (files !== kept) {
    const draft = join(directory, "applied.draft");
    await rm(draft, { recursive: true, force: true });
    await copyModule(files, draft);
    await linkTree(join(files, PROVIDERS), join(draft, PROVIDERS));
    await rm(kept, { recursive: true, force: true });
    await rename(draft, kept);
  }
  await writeDurably(join(directory, "applied.json"), JSON.stringify(applied));
}

/** Everything but providers (large, and never changed) and what belongs to one working directory. */
export async function copyModule(from: string, to: string): Promise<void> {
  const left = new Set([".terraform", ".git", ".terraform.tfstate.lock.info"]);
  await mkdir(to, { recursive: true, mode: 0o700 });
  await cp(from, to, {
    recursive: true,
    verbatimSymlinks: true,
    filter: (source) => {
      const name = source.slice(source.lastIndexOf("/") + 1);
      const isState = /\.tfstate(\.backup)?$/.test(name);
      return !left.has(name) && !isState && source !== join(from, PROVIDERS);
    },
  });
}

/** Hard links where the file system allows: a provider can be hundreds of megabytes. */
export async function linkTree(from: string, to: string): Promise<void> {
  const entries = await readdir(from, { withFileTypes: true, recursive: true }).catch(() => []);
  for (const entry of entries.filter((found) => found.isFile())) {
    const source = join(entry.parentPath, entry.name);
    const target = join(to, source.slice(from.length + 1));
    await mkdir(join(target, ".."), { recursive: true });
    await link(source, target).catch(() => copyFile(source, target));
  }
}

const StateFile = z.object({
  serial: z.int(),
  resources: z
    .array(
      z.object({
        module: z.string().optional(),
        mode: z.string(),
        type: z.string(),
        name: z.string(),
        instances: z.array(z.object({ index_key: z.union([z.string(), z.number()]).optional() })),
      }),
    )
    .default([]),
});
export type StateFacts = z.infer<typeof StateFile>;

/**
 * What the state file says of itself; undefined when there is none. Terraform writes it in place, so
 * a kill in that moment can cut it off: an empty file would then read as "nothing exists" and
 * everything would be created again. We refuse instead, and name the copy from before.
 */
export async function readState(state: ComponentState): Promise<StateFacts | undefined> {
  const text = await readFile(state.stateFile, "utf8").catch((reason: NodeJS.ErrnoException) => {
    if (reason.code === "ENOENT") return undefined;
    throw reason;
  });
  if (text === undefined) return undefined;
  const [newest] = (await backups(state)).toReversed();
  if (text.trim() === "" && newest === undefined) return undefined;
  try {
    return StateFile.parse(JSON.parse(text));
  } catch (cause) {
    const copy = newest ? `; the copy from before the last apply is ${newest}` : "";
    throw new Failure("conflict", `the state file was cut off while it was written${copy}`, {
      cause,
    });
  }
}

/** Copies the state aside; the newest five copies are kept. */
export async function backUpState(state: ComponentState, at: Date): Promise<void> {
  const facts = await readState(state);
  if (!facts) return;
  const directory = join(state.directory, "backups");
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const stamp = at.toISOString().replaceAll(":", "-");
  await copyFile(state.stateFile, join(directory, `${stamp}-serial-${facts.serial}.tfstate`));
  const surplus = (await backups(state)).slice(0, -BACKUPS_KEPT);
  await Promise.all(surplus.map((path) => rm(path, { force: true })));
}

async function backups({ directory }: ComponentState): Promise<string[]> {
  const names = await readdir(join(directory, "backups")).catch(() => []);
  return names.toSorted().map((name) => join(directory, "backups", name));
}

/** After a destroy nothing of the component is left but the log of its end. */
export async function forgetState(state: ComponentState): Promise<void> {
  const names = await readdir(state.directory);
  const gone = names.map((name) => join(state.directory, name));
  const kept = new Set([state.logFile, state.ownerFile]);
  await Promise.all(
    gone
      .filter((path) => !kept.has(path))
      .map((path) => rm(path, { recursive: true, force: true })),
  );
}
