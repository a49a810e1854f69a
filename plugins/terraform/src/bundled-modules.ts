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

/** After the build's init: moves what was fetched into the module. Returns the keys of what it took. */
export async function keepModules(dataDirectory: string, directory: string): Promise<string[]> {
  const fetched = join(dataDirectory, "modules");
  const list = await readList(fetched);
  const taken = list?.Modules.filter(({ Dir }) => isInside(fetched, Dir)) ?? [];
  if (!list || taken.length === 0) return [];

  const kept = join(directory, MODULES);
  await copyModule(fetched, kept);
  const Modules = list.Modules.map((module) =>
    isInside(fetched, module.Dir)
      ? { ...module, Dir: join(MODULES, relative(fetched, module.Dir)) }
      : module,
  );
  await writeFile(join(kept, LIST), JSON.stringify({ ...list, Modules }));
  await rm(fetched, { recursive: true });
  return taken.map(({ Key }) => Key);
}

/** Tells the tool of the modules that came along. */
export async function offerModules(directory: string, dataDirectory: string): Promise<void> {
  const list = join(directory, MODULES, LIST);
  if ((await readFile(list).catch(() => undefined)) === undefined) return;
  const target = join(dataDirectory, "modules", LIST);
  await mkdir(dirname(target), { recursive: true });
  await copyFile(list, target);
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
