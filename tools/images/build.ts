// Makes every image of this clone: each recipe is bundled into a folder, and the folders are packed.

import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { IMAGE_LIST, type ImagesBuild, packImages } from "@exclave/oci/images";
import { digestInputs } from "./inputs.ts";
import { listRecipes } from "./recipes.ts";
import { stageImage } from "./stage.ts";

export interface BuildImagesOptions {
  readonly root: string;
  /** The OCI layout; images.json lies in it. */
  readonly directory: string;
  /** The Node that goes into the images. */
  readonly nodePath: string;
  /** Where programs that plugins run are looked for; without it images hold none. */
  readonly toolPath?: string | undefined;
  readonly ifNeeded: boolean;
  readonly log: (line: string) => void;
}

/** The digest of the sources, so that unchanged ones are not even bundled. */
const SOURCES = "sources.txt";

export async function buildImages(options: BuildImagesOptions): Promise<ImagesBuild> {
  const { root, directory, nodePath, toolPath, ifNeeded, log } = options;
  const sources = await digestInputs(root, nodePath, toolPath);
  if (ifNeeded && (await lastSources(directory)) === sources) return { kind: "up-to-date" };

  const scratch = await mkdtemp(join(tmpdir(), "exclave-images-"));
  try {
    const folders: string[] = [];
    for (const recipe of await listRecipes(root)) {
      const folder = join(scratch, recipe.kind, recipe.name);
      await stageImage(root, recipe, folder);
      folders.push(folder);
    }
    const built = await packImages({
      directory,
      folders,
      nodePath,
      toolPath,
      ifNeeded: false,
      log,
    });
    await writeFile(join(directory, SOURCES), sources);
    return built;
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

async function lastSources(directory: string): Promise<string | undefined> {
  if (!existsSync(join(directory, IMAGE_LIST))) return undefined;
  return readFile(join(directory, SOURCES), "utf8").catch(() => undefined);
}
