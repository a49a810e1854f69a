// Where on this machine an install lives. Either its directory is given, or a directory for many: there
// it has a home by its name, and by its name and id where an install that had the name before, and was
// forgotten, still lives. Nothing of that one is touched.

import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { Failure } from "@exclave/plugin-sdk";
import { type Home, installHome, readContract } from "./home.ts";

export interface Wanted {
  readonly directory?: string | undefined;
  readonly installs?: string | undefined;
  readonly install: { readonly id: string; readonly name: string };
}

export async function findHome({ directory, installs, install }: Wanted): Promise<Home> {
  if (directory !== undefined) return installHome(directory);
  if (installs === undefined) {
    throw new Failure("invalid", "the local sandbox is not told where: give it a directory");
  }
  const { id, name } = install;
  const byName = installHome(join(installs, name));
  const byId = installHome(join(installs, `${name}-${id}`));
  for (const home of [byName, byId]) {
    if ((await readContract(home))?.install.id === id) return home;
  }
  return (await isFree(byName.directory)) ? byName : byId;
}

/** Not there, or there and empty. */
export async function isFree(directory: string): Promise<boolean> {
  try {
    return (await readdir(directory)).length === 0;
  } catch (reason) {
    if ((reason as NodeJS.ErrnoException).code === "ENOENT") return true;
    throw reason;
  }
}
