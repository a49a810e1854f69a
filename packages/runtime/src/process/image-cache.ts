// Images unpacked on this machine, once per digest. An image appears under its digest whole or not
// at all; whoever comes second, in this process or another, uses what the first one made, if it is
// still exactly that: a tree that was changed is thrown away and unpacked again.

import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Digest } from "@exclave/core";
import { z } from "zod";
import type { ImageRef } from "../job-runtime.ts";
import { createDraft, renameUnlessThere } from "./draft-directory.ts";
import { removeTree, type TreeSeals } from "./tree-seal.ts";

/** The part of an image's configuration that says how it is run. */
export const ImageConfig = z.object({
  entrypoint: z.array(z.string()),
  cmd: z.array(z.string()),
  env: z.array(z.string()),
  workingDir: z.string().optional(),
});
export type ImageConfig = z.infer<typeof ImageConfig>;

/** Beside the tree: how it is run, and what it must be. */
const ImageRecord = z.object({ config: ImageConfig, seal: z.string() });

/** Where images come from: the registry this install calls its own. */
export interface ImageSource {
  /** Unpacks the image into this empty directory, every byte checked against the digest. */
  unpack(ref: ImageRef, directory: string): Promise<ImageConfig>;
}

export interface UnpackedImage {
  /** The image's file system. */
  readonly root: string;
  readonly config: ImageConfig;
  /** What a person should know about how it came to be here. */
  readonly note?: string;
}

export interface ImageCache {
  get(ref: ImageRef): Promise<UnpackedImage>;
}

export interface ImageCacheOptions {
  readonly directory: string;
  readonly source: ImageSource;
  readonly seals: TreeSeals;
  /** Told before an image that somebody changed is thrown away; what it throws keeps the job from starting. */
  readonly onChanged?: ((because: string) => Promise<void>) | undefined;
}

export function createImageCache(options: ImageCacheOptions): ImageCache {
  const { directory, source, seals, onChanged } = options;
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
    const found = await readImage(path);
    if (found === "none") return unpack(ref, path);
    if (found !== "changed") return found;
    const note = `the unpacked image ${ref.digest} was changed on this machine; it is unpacked again`;
    await onChanged?.(note);
    await discard(path);
    return { ...(await unpack(ref, path)), note };
  }

  async function unpack(ref: ImageRef, path: string): Promise<UnpackedImage> {
    const draft = await createDraft(directory);
    try {
      const root = join(draft, "root");
      await mkdir(root);
      const config = ImageConfig.parse(await source.unpack(ref, root));
      const record = { config, seal: await seals.seal(root) };
      await writeFile(join(draft, "image.json"), JSON.stringify(record), { mode: 0o400 });
      await renameUnlessThere(draft, path);
    } finally {
      await removeTree(draft);
    }
    const image = await readImage(path);
    if (typeof image === "string") throw new Error(`${path} changed while it was unpacked`);
    return image;
  }

  /** Out of sight in one step, so that nobody finds half of it. */
  async function discard(path: string): Promise<void> {
    const grave = await createDraft(directory);
    await renameUnlessThere(path, join(grave, "image"));
    await removeTree(grave);
  }

  async function readImage(path: string): Promise<UnpackedImage | "none" | "changed"> {
    const record = await readRecord(join(path, "image.json"));
    if (typeof record === "string") return record;
    const root = join(path, "root");
    return (await seals.matches(root, record.seal)) ? { root, config: record.config } : "changed";
  }
}

async function readRecord(path: string): Promise<z.infer<typeof ImageRecord> | "none" | "changed"> {
  try {
    const record = ImageRecord.safeParse(JSON.parse(await readFile(path, "utf8")));
    return record.data ?? "changed";
  } catch (reason) {
    return (reason as NodeJS.ErrnoException).code === "ENOENT" ? "none" : "changed";
  }
}
