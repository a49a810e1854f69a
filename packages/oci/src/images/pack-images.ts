// Packs the images that Exclave ships into one OCI layout: node at the bottom, the runner on it, and on
// the runner one layer for each plugin and sandbox. Equal folders and an equal Node give equal digests.

import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { type Digest, Failure, PLUGIN_ANNOTATION } from "@exclave/core";
import { writeFileDurably } from "../content/blob-files.ts";
import type { ContentStore } from "../content/content-store.ts";
import { createLayoutStore } from "../content/layout-store.ts";
import { packImage } from "../pack/pack.ts";
import { stampBase } from "./base-files.ts";
import {
  IMAGE_PREFIX,
  type ImageFolder,
  type ImageNote,
  readImageFolders,
} from "./image-folder.ts";
import { stampTools, toolsLayer } from "./image-tools.ts";
import { packNodeImage } from "./node-image.ts";
import { pruneLayout } from "./prune-layout.ts";

export { stampBase } from "./base-files.ts";
export * from "./image-folder.ts";
export { stampTools } from "./image-tools.ts";

export interface BuiltImage extends ImageNote {
  readonly digest: Digest;
}

export interface PackImagesOptions {
  /** The OCI layout; images.json lies in it. */
  readonly directory: string;
  readonly folders: readonly string[];
  /** The Node that goes into the images. */
  readonly nodePath: string;
  /** Where the programs that plugins run are looked for; without it images hold none. */
  readonly toolPath?: string | undefined;
  /** Leave a layout alone that was made of the same folders and the same Node. */
  readonly ifNeeded: boolean;
  readonly log: (line: string) => void;
}

export type ImagesBuild =
  | { readonly kind: "up-to-date" }
  | { readonly kind: "built"; readonly images: readonly BuiltImage[] };

/** What is in the layout, by digest: written last, so that everything named in it is there. */
export const IMAGE_LIST = "images.json";
const INPUTS = "inputs.txt";
const NODE_REPOSITORY = "exclave/node";
const ENTRYPOINT = ["/exclave/bin/node", "/exclave/runner.mjs"];

export async function packImages(options: PackImagesOptions): Promise<ImagesBuild> {
  const { directory, nodePath, toolPath, ifNeeded, log } = options;
  const folders = await readImageFolders(options.folders);
  if (folders[0]?.kind !== "runner") {
    throw new Failure("invalid", "the runner's image is missing, on which all others stand");
  }
  const inputs = await digestInputs(folders, { nodePath, toolPath });
  if (ifNeeded && (await lastInputs(directory)) === inputs) return { kind: "up-to-date" };

  await mkdir(directory, { recursive: true });
  const store = createLayoutStore({ directory });
  const repository = NODE_REPOSITORY;
  const node = await packNodeImage({ store, repository, nodePath, directory, log });
  const images: BuiltImage[] = [];
  let below: ImageRef = { repository, digest: node };
  for (const folder of folders) {
    const image = await packFolder(store, folder, below, toolPath);
    if (image.kind === "runner") below = image;
    images.push(image);
    log(`${image.kind.padEnd(8)} ${image.name.padEnd(12)} ${image.digest}`);
  }
  await writeFileDurably(join(directory, IMAGE_LIST), `${JSON.stringify(images, null, 2)}\n`);
  await writeFileDurably(join(directory, INPUTS), inputs);
  await pruneLayout(directory, [node, ...images.map(({ digest }) => digest)]);
  return { kind: "built", images };
}

type ImageRef = Pick<BuiltImage, "repository" | "digest">;

async function packFolder(
  store: ContentStore,
  { folder, ...note }: ImageFolder,
  baseImage: ImageRef,
  toolPath: string | undefined,
): Promise<BuiltImage> {
  const { repository, descriptor, tools: named } = note;
  const tools = named && toolPath !== undefined ? await toolsLayer(named, toolPath) : undefined;
  const { digest } = await packImage({
    store,
    repository,
    baseImage,
    layers: [
      // Below the plugin: they change less often than it does.
      ...(tools ? [{ files: tools.files }] : []),
      { directory: join(folder, IMAGE_PREFIX), prefix: IMAGE_PREFIX },
    ],
    config: { entrypoint: ENTRYPOINT, ...(tools && { labels: tools.labels }) },
    ...(descriptor && { annotations: { [PLUGIN_ANNOTATION]: JSON.stringify(descriptor) } }),
    tag: "latest",
  });
  return { ...note, digest };
}

async function digestInputs(
  folders: readonly ImageFolder[],
  { nodePath, toolPath }: Pick<PackImagesOptions, "nodePath" | "toolPath">,
): Promise<string> {
  const hash = createHash("sha256");
  for (const { folder, ...note } of folders) {
    hash.update(`${JSON.stringify(note)}\0`);
    if (toolPath !== undefined) hash.update(await stampTools(note.tools ?? [], toolPath));
    const programs = join(folder, IMAGE_PREFIX);
    for (const name of (await readdir(programs)).toSorted()) {
      hash.update(`${name}\0`).update(await readFile(join(programs, name)));
    }
  }
  return hash.update(await stampBase(nodePath)).digest("hex");
}

async function lastInputs(directory: string): Promise<string | undefined> {
  if (!existsSync(join(directory, IMAGE_LIST))) return undefined;
  return readFile(join(directory, INPUTS), "utf8").catch(() => undefined);
}
