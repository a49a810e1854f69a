// One image before it is packed, as a folder: `image.json` says what it is, `exclave/` holds its
// programs, bundled. An npm package carries such a folder, so that the images are made where the
// package was installed, on the Node that runs there.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { Failure, PluginDescriptor } from "@exclave/core";
import { z } from "zod";

export const ImageNote = z.object({
  name: z.string(),
  kind: z.enum(["runner", "plugin", "sandbox"]),
  repository: z.string(),
  /** Programs that it runs beside its own, where they are to be had. */
  tools: z.array(z.string()).optional(),
  descriptor: PluginDescriptor.optional(),
});
export type ImageNote = z.infer<typeof ImageNote>;
export type ImageKind = ImageNote["kind"];

export const IMAGE_NOTE = "image.json";
/** Where the programs lie: in the folder, and in the image. */
export const IMAGE_PREFIX = "exclave";

export interface ImageFolder extends ImageNote {
  readonly folder: string;
}

/** The folders' images in the order they are packed: the runner first, the others stand on it. */
export async function readImageFolders(folders: readonly string[]): Promise<ImageFolder[]> {
  const found = await Promise.all(folders.map(readImageFolder));
  const order: readonly ImageKind[] = ["runner", "plugin", "sandbox"];
  return found.toSorted(
    (a, b) => order.indexOf(a.kind) - order.indexOf(b.kind) || (a.name < b.name ? -1 : 1),
  );
}

async function readImageFolder(folder: string): Promise<ImageFolder> {
  try {
    const text = await readFile(join(folder, IMAGE_NOTE), "utf8");
    return { ...ImageNote.parse(JSON.parse(text)), folder };
  } catch (cause) {
    throw new Failure("invalid", `${folder} holds no image: ${IMAGE_NOTE} cannot be read`, {
      cause,
    });
  }
}
