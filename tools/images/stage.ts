// Bundles what goes into an image into a folder, from which the image is packed: here at once, or
// where an npm package with that folder was installed.

import { existsSync } from "node:fs";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { IMAGE_NOTE, IMAGE_PREFIX, type ImageNote } from "@exclave/oci/images";
import { bundle } from "./bundle.ts";
import type { Recipe } from "./recipes.ts";

export async function stageImage(root: string, recipe: Recipe, folder: string): Promise<void> {
  const { programs, package: _, ...note } = recipe;
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  await Promise.all(
    Object.entries(programs).map(([file, entry]) => {
      if (!existsSync(join(root, entry))) {
        throw new Error(`${entry}, to become ${file}, is missing`);
      }
      return bundle(root, entry, join(folder, IMAGE_PREFIX, file));
    }),
  );
  const written: ImageNote = note;
  await writeFile(join(folder, IMAGE_NOTE), `${JSON.stringify(written, null, 2)}\n`);
}
