// Makes every image from its recipe: node at the bottom, the runner on it, and on the runner one
// layer for each plugin and sandbox. Equal sources give equal digests.

import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Digest, PLUGIN_ANNOTATION, type PluginDescriptor } from "@exclave/core";
import { type ContentStore, createLayoutStore, packImage } from "@exclave/oci";
import { bundle } from "./bundle.ts";
import { digestInputs } from "./inputs.ts";
import { packNodeImage } from "./node-image.ts";
import { pruneLayout } from "./prune.ts";
import { type ImageKind, listRecipes, type Recipe } from "./recipes.ts";

export interface BuiltImage {
  readonly name: string;
  readonly kind: ImageKind;
  readonly repository: string;
  readonly digest: Digest;
  readonly descriptor?: PluginDescriptor;
}

export interface BuildImagesOptions {
  readonly root: string;
  /** The OCI layout; images.json lies in it. */
  readonly directory: string;
  /** The Node that goes into the images. */
  readonly nodePath: string;
  readonly ifNeeded: boolean;
  readonly log: (line: string) => void;
}

export type ImagesBuild =
  | { readonly kind: "up-to-date" }
  | { readonly kind: "built"; readonly images: readonly BuiltImage[] };

const NODE_REPOSITORY = "exclave/node";
const ENTRYPOINT = ["/exclave/bin/node", "/exclave/runner.mjs"];

export async function buildImages(options: BuildImagesOptions): Promise<ImagesBuild> {
  const { root, directory, nodePath, ifNeeded, log } = options;
  const inputs = digestInputs(root, nodePath);
  if (ifNeeded && (await lastInputs(directory)) === inputs) return { kind: "up-to-date" };

  await mkdir(directory, { recursive: true });
  const scratch = await mkdtemp(join(tmpdir(), "exclave-images-"));
  try {
    const store = createLayoutStore({ directory });
    const repository = NODE_REPOSITORY;
    const node = await packNodeImage({ store, repository, nodePath, directory, log });
    const images: BuiltImage[] = [];
    let below: ImageRef = { repository, digest: node };
    for (const recipe of await listRecipes(root)) {
      const staged = join(scratch, recipe.kind, recipe.name);
      await bundleAll(root, recipe.programs, staged);
      const image = await packRecipe(store, recipe, staged, below);
      if (recipe.kind === "runner") below = image;
      images.push(image);
      log(`${recipe.kind.padEnd(8)} ${recipe.name.padEnd(12)} ${image.digest}`);
    }
    await writeList(directory, images, inputs);
    await pruneLayout(directory, [node, ...images.map(({ digest }) => digest)]);
    return { kind: "built", images };
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

type ImageRef = Pick<BuiltImage, "repository" | "digest">;

async function packRecipe(
  store: ContentStore,
  { name, kind, repository, descriptor }: Recipe,
  staged: string,
  baseImage: ImageRef,
): Promise<BuiltImage> {
  const { digest } = await packImage({
    store,
    repository,
    baseImage,
    layers: [{ directory: staged, prefix: "exclave" }],
    config: { entrypoint: ENTRYPOINT },
    ...(descriptor && { annotations: { [PLUGIN_ANNOTATION]: JSON.stringify(descriptor) } }),
    tag: "latest",
  });
  return { name, kind, repository, digest, ...(descriptor && { descriptor }) };
}

async function bundleAll(
  root: string,
  programs: Recipe["programs"],
  directory: string,
): Promise<void> {
  await Promise.all(
    Object.entries(programs).map(([file, entry]) => {
      if (!existsSync(join(root, entry)))
        throw new Error(`${entry}, to become ${file}, is missing`);
      return bundle(root, entry, join(directory, file));
    }),
  );
}

const LIST = "images.json";
const INPUTS = "inputs.txt";

async function lastInputs(directory: string): Promise<string | undefined> {
  if (!existsSync(join(directory, LIST))) return undefined;
  return readFile(join(directory, INPUTS), "utf8").catch(() => undefined);
}

/** Last and at once: whoever reads the list finds everything that is in it. */
async function writeList(directory: string, images: readonly BuiltImage[], inputs: string) {
  await replaceFile(join(directory, LIST), `${JSON.stringify(images, null, 2)}\n`);
  await replaceFile(join(directory, INPUTS), inputs);
}

async function replaceFile(path: string, text: string): Promise<void> {
  await writeFile(`${path}.new`, text);
  await rename(`${path}.new`, path);
}
