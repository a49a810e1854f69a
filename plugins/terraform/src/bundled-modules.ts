// Modules from registries and repositories, brought along: the build lets the tool fetch them once and
// keeps them in the artifact; in an install the tool is told that it has them already.

import { copyFile, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, isAbsolute, join, relative } from "node:path";
import { Failure, z } from "@exclave/plugin-sdk";
import { copyModule } from "./component-state.ts";

/** Where they lie in the artifact, with the tool's own list of them. */
const MODULES = join(".exclave", "modules");
const LIST = "modules.json";

const ModuleList = z.looseObject({
  Modules: z.array(z.looseObject({ Key: z.string(), Source: z.string(), Dir: z.string() })),
});
type ModuleList = z.infer<typeof ModuleList>;

/**
 * After the build's init: moves what was fetched into the module, and writes down every module there
 * is, local ones too. Returns the keys of what it took.
 */
export async function keepModules(dataDirectory: string, directory: string): Promise<string[]> {
  const fetched = join(dataDirectory, "modules");
  const list = (await readList(fetched)) ?? { Modules: [] };
  const taken = list.Modules.filter(({ Dir }) => isInside(fetched, Dir));

  const kept = join(directory, MODULES);
  await mkdir(kept, { recursive: true });
  if (taken.length > 0) await copyModule(fetched, kept);
  const Modules = list.Modules.map((module) =>
    isInside(fetched, module.Dir)
      ? { ...module, Dir: join(MODULES, relative(fetched, module.Dir)) }
      : module,
  ).toSorted((a, b) => (a.Key < b.Key ? -1 : 1)); // Older tools list them in no order.
  await writeFile(join(kept, LIST), JSON.stringify({ ...list, Modules }));
  await rm(fetched, { recursive: true, force: true });
  return taken.map(({ Key }) => Key);
}

/**
 * Tells the tool of the modules that came along. False where nothing says which did: in a source, and
 * in an artifact whose build fetched none and is from before builds always kept the list.
 */
export async function offerModules(directory: string, dataDirectory: string): Promise<boolean> {
  const list = join(directory, MODULES, LIST);
  if ((await readFile(list).catch(() => undefined)) === undefined) return false;
  const target = join(dataDirectory, "modules", LIST);
  await mkdir(dirname(target), { recursive: true });
  await copyFile(list, target);
  return true;
}

/** After an install's init: whatever the tool fetched did not come with the artifact. */
export async function refuseFetchedModules(dataDirectory: string): Promise<void> {
  const fetched = join(dataDirectory, "modules");
  const found = (await readList(fetched))?.Modules.find(({ Dir }) => isInside(fetched, Dir));
  if (!found) return;
  const message = `the module ${found.Key} comes from ${found.Source} and was not brought along by the build`;
  throw new Failure("invalid", message);
}

async function readList(directory: string): Promise<ModuleList | undefined> {
  const text = await readFile(join(directory, LIST), "utf8").catch(() => undefined);
  return text === undefined ? undefined : ModuleList.parse(JSON.parse(text));
}

function isInside(directory: string, path: string): boolean {
  return isAbsolute(path) && !relative(directory, path).startsWith("..");
}
