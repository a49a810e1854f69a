// The published package.json lies in the package's folder only while npm packs it. The clone's own is
// kept beside it, so that a run that was killed can be undone.

import { existsSync } from "node:fs";
import { copyFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { PublishedManifest } from "./published-manifest.ts";

const MANIFEST = "package.json";
const KEPT = "package.json.source";
/** What prepack.ts puts into a package's folder; git ignores all of it. */
const CARRIED = ["image", "demo", "LICENSE", "README.md"];

export async function layManifest(folder: string, manifest: PublishedManifest): Promise<void> {
  await copyFile(join(folder, MANIFEST), join(folder, KEPT));
  const draft = join(folder, `${MANIFEST}.published`);
  await writeFile(draft, `${JSON.stringify(manifest, null, 2)}\n`);
  await rename(draft, join(folder, MANIFEST));
}

export async function restorePackage(folder: string): Promise<void> {
  for (const name of CARRIED) await rm(join(folder, name), { recursive: true, force: true });
  const kept = join(folder, KEPT);
  if (existsSync(kept)) await rename(kept, join(folder, MANIFEST));
}
