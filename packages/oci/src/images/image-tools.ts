// Programs that a plugin runs, such as `terraform`, inside its image: taken from a search path when the images are
// packed, if that was asked for, and pinned there by their digest. A container sees no program of its machine.

import { existsSync } from "node:fs";
import { stat } from "node:fs/promises";
import { delimiter, isAbsolute, join } from "node:path";
import type { LayerFile } from "../layer/layer.ts";
import { digestFile, withLibraries } from "./base-files.ts";

export interface ToolsLayer {
  readonly files: readonly LayerFile[];
  /** `dev.exclave.tool.NAME`, with the digest of the program. */
  readonly labels: Readonly<Record<string, string>>;
}

const LABEL = "dev.exclave.tool";

/** Undefined where none of them is to be had: the image then has none, and its jobs say so. */
export async function toolsLayer(
  names: readonly string[],
  searchPath: string,
): Promise<ToolsLayer | undefined> {
  const found = findTools(names, searchPath);
  if (found.length === 0) return undefined;
  const programs = found.map(({ name, from }) => ({ path: `usr/local/bin/${name}`, from }));
  const labels = await Promise.all(
    found.map(async ({ name, from }) => [`${LABEL}.${name}`, `sha256:${await digestFile(from)}`]),
  );
  return { files: await withLibraries(programs), labels: Object.fromEntries(labels) };
}

/** Sizes and times tell a replaced program. */
export async function stampTools(names: readonly string[], searchPath: string): Promise<string> {
  const stamps = findTools(names, searchPath).map(async ({ name, from }) => {
    const { size, mtimeMs } = await stat(from);
    return `${name} ${size} ${mtimeMs}`;
  });
  return (await Promise.all(stamps)).join("\n");
}

function findTools(names: readonly string[], searchPath: string) {
  const places = searchPath.split(delimiter).filter((place) => isAbsolute(place));
  return names.flatMap((name) => {
    const from = places.map((place) => join(place, name)).find((path) => existsSync(path));
    return from === undefined ? [] : [{ name, from }];
  });
}
