// Takes out of the layout what no image of this build needs, so that it does not grow with every
// change of the source.

import { readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { ImageIndex, ImageManifest } from "../content/descriptor.ts";

export async function pruneLayout(directory: string, digests: readonly string[]): Promise<void> {
  const wanted = new Set(digests);
  const indexFile = join(directory, "index.json");
  const index = ImageIndex.parse(JSON.parse(await readFile(indexFile, "utf8")));
  const manifests = index.manifests.filter(({ digest }) => wanted.has(digest));
  await writeFile(indexFile, `${JSON.stringify({ ...index, manifests }, null, 2)}\n`);

  const blobs = join(directory, "blobs/sha256");
  const kept = new Set(digests);
  for (const digest of digests) {
    const text = await readFile(join(blobs, digest.replace("sha256:", "")), "utf8");
    const { config, layers } = ImageManifest.parse(JSON.parse(text));
    for (const blob of [config, ...layers]) kept.add(blob.digest);
  }
  for (const name of await readdir(blobs)) {
    if (!kept.has(`sha256:${name}`)) await rm(join(blobs, name), { recursive: true });
  }
}
