// Images unpacked on this machine, once per digest. An image appears under its digest whole or not
// at all; whoever comes second, in this process or another, uses what the first one made.

import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Digest } from "@exclave/core";
import { z } from "zod";
import type { ImageRef } from "../job-runtime.ts";
import { createDraft, renameUnlessThere } from "./draft-directory.ts";

/** The part of an image's configuration that says how it is run. */
export const ImageConfig = z.object({
  entrypoint: z.array(z.string()),
  cmd: z.array(z.string()),
  env: z.array(z.string()),
  workingDir: z.string().optional(),
});
export type ImageConfig = z.infer<typeof ImageConfig>;

/** Where images come from: the registry this install calls its own. */
export interface ImageSource {
  /** Unpacks the image into this empty directory, every byte checked against the digest. */
  unpack(ref: ImageRef, directory: string): Promise<ImageConfig>;
}

export interface UnpackedImage {
  /** The image's file system. */
  readonly root: string;
  readonly config: ImageConfig;
}

export interface ImageCache {
  get(ref: ImageRef): Promise<UnpackedImage>;
}

export function createImageCache(directory: string, source: ImageSource): ImageCache {
  const getting = new Map<string, Promise<UnpackedImage>>();

  return { get };

  async function get(ref: ImageRef): Promise<UnpackedImage> {
    const digest = Digest.parse(ref.digest);
    const shared = getting.get(digest);
    if (shared) return shared;
    // Looking is part of what is shared: a look from before the image was there is worth nothing.
    const found = find(ref, join(directory, digest.replace(":", "-")));
    getting.set(digest, found);
    return found.finally(() => getting.delete(digest));
  }

  async function find(ref: ImageRef, path: string): Promise<UnpackedImage> {
    return (await readImage(path)) ?? unpack(ref, path);
  }

  async function unpack(ref: ImageRef, path: string): Promise<UnpackedImage> {
    const draft = await createDraft(directory);
    try {
      const root = join(draft, "root");
      await mkdir(root);
      const config = ImageConfig.parse(await source.unpack(ref, root));
      await writeFile(join(draft, "image.json"), JSON.stringify(config), { mode: 0o600 });
      await renameUnlessThere(draft, path);
    } finally {
      await rm(draft, { recursive: true, force: true });
    }
    const image = await readImage(path);
    if (!image) throw new Error(`${path} vanished while it was unpacked`);
    return image;
  }
}

async function readImage(path: string): Promise<UnpackedImage | undefined> {
  let text: string;
  try {
    text = await readFile(join(path, "image.json"), "utf8");
  } catch (reason) {
    if ((reason as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw reason;
  }
  return { root: join(path, "root"), config: ImageConfig.parse(JSON.parse(text)) };
}
