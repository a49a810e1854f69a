// Finds the plugin of this image beside the runner: a module that exports `plugin`, or a description
// of a program in any language. The runner's own image has neither; it syncs and assembles.

import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { Failure } from "@exclave/core";
import { type Plugin, type ProgramPlugin, parseProgramPlugin } from "@exclave/plugin-sdk";

export type LoadedPlugin =
  | { readonly kind: "module"; readonly plugin: Plugin }
  | { readonly kind: "program"; readonly plugin: ProgramPlugin; readonly directory: string }
  | { readonly kind: "none" };

export async function loadPlugin(directory: string): Promise<LoadedPlugin> {
  const module = join(directory, "plugin.mjs");
  if (await exists(module)) return { kind: "module", plugin: await importPlugin(module) };

  const description = join(directory, "plugin.json");
  if (await exists(description)) {
    return {
      kind: "program",
      plugin: parseProgramPlugin(await readFile(description, "utf8")),
      directory,
    };
  }
  return { kind: "none" };
}

async function importPlugin(path: string): Promise<Plugin> {
  const { plugin } = await import(pathToFileURL(path).href);
  if (typeof plugin?.definition !== "object") {
    throw new Failure("plugin", "plugin.mjs does not export a plugin made by definePlugin");
  }
  return plugin;
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}
