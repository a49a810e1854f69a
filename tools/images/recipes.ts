// Which images there are, the runner first, and what goes into each on top of it.

import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { PluginDescriptor } from "@exclave/core";
import type { ImageKind, ImageNote } from "@exclave/oci/images";

export interface Recipe extends ImageNote {
  /** The package's folder, from the root. */
  readonly package: string;
  /** Programs bundled into /exclave, by file name; the value is the source, from the root. */
  readonly programs: Readonly<Record<string, string>>;
}

/** Programs a plugin or sandbox starts by itself, beside plugin.mjs. */
const MORE_PROGRAMS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "plugins/service": { "supervisor.mjs": "plugins/service/src/supervisor.ts" },
  "sandboxes/local": {
    "agent.mjs": "packages/agent/src/main.ts",
    "keeper.mjs": "packages/runtime/src/process/keeper.ts",
    "registry.mjs": "packages/oci/src/programs/registry-main.ts",
    "init.mjs": "sandboxes/local/src/init.ts",
  },
  "sandboxes/podman": {
    "agent.mjs": "packages/agent/src/main.ts",
    "registry.mjs": "packages/oci/src/programs/registry-main.ts",
    "gate.mjs": "sandboxes/podman/src/gate/gate-main.ts",
  },
};

/** Programs of others that a plugin runs; in its image where they were found and asked for. */
const TOOLS: Readonly<Record<string, readonly string[]>> = {
  "plugins/terraform": ["terraform", "tofu"],
  "plugins/helm": ["helm", "kubectl"],
  "plugins/kubernetes": ["kubectl"],
};

export const ALL_TOOLS = [...new Set(Object.values(TOOLS).flat())];

export async function listRecipes(root: string): Promise<Recipe[]> {
  const runner: Recipe = {
    package: "packages/runner",
    name: "runner",
    kind: "runner",
    repository: "exclave/runner",
    programs: { "runner.mjs": "packages/runner/src/main.ts" },
  };
  const plugins = await recipesIn(root, "plugins", "plugin");
  const sandboxes = await recipesIn(root, "sandboxes", "sandbox");
  return [runner, ...plugins, ...sandboxes];
}

async function recipesIn(root: string, folder: string, kind: ImageKind): Promise<Recipe[]> {
  const recipes: Recipe[] = [];
  for (const name of readdirSync(join(root, folder)).toSorted()) {
    const entry = `${folder}/${name}/src/plugin.ts`;
    if (!existsSync(join(root, entry))) continue;
    const { plugin } = await import(pathToFileURL(join(root, entry)).href);
    const descriptor = PluginDescriptor.parse(plugin.descriptor);
    recipes.push({
      package: `${folder}/${name}`,
      name: descriptor.type,
      kind,
      repository: `exclave/${folder}/${descriptor.type}`,
      programs: { "plugin.mjs": entry, ...MORE_PROGRAMS[`${folder}/${name}`] },
      ...(TOOLS[`${folder}/${name}`] && { tools: [...(TOOLS[`${folder}/${name}`] ?? [])] }),
      descriptor,
    });
  }
  return recipes;
}
