// The lowest layer of an image, unpacked once per digest and linked into every tree that stands on
// it: images of one family share their largest files instead of each having a copy.

import { randomUUID } from "node:crypto";
import { link, mkdir, readdir, readlink, rename, rm, stat, symlink } from "node:fs/promises";
import { join, posix } from "node:path";
import { unlessAbsent } from "./blob-files.ts";
import type { Descriptor } from "./descriptor.ts";

/**
 * Puts the layer's tree into `directory`; `unpack` is asked for it the first time only. Gives back
 * the symbolic links in it: what lies above may lead them elsewhere, so they are checked again.
 */
export async function placeBaseLayer(
  cache: string,
  { digest }: Descriptor,
  directory: string,
  unpack: (directory: string) => Promise<unknown>,
): Promise<string[]> {
  const tree = join(cache, digest.replace(":", "-"));
  if (!(await unlessAbsent(stat(tree)))) {
    // Made whole beside its place, so that a crash leaves nothing that looks finished.
    const draft = `${tree}.${randomUUID()}`;
    try {
      await unpack(draft);
      await rename(draft, tree).catch(async (reason) => {
        if (!(await unlessAbsent(stat(tree)))) throw reason;
      });
    } finally {
      await rm(draft, { recursive: true, force: true });
    }
  }
  return linkTree(tree, directory, ".");
}

async function linkTree(from: string, to: string, path: string): Promise<string[]> {
  await mkdir(to, { recursive: true, mode: (await stat(from)).mode & 0o777 });
  const links: string[] = [];
  for (const entry of await readdir(from, { withFileTypes: true })) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)];
    const place = posix.join(path, entry.name);
    if (entry.isDirectory()) {
      links.push(...(await linkTree(source, target, place)));
    } else if (entry.isSymbolicLink()) {
      await symlink(await readlink(source), target);
      links.push(place);
    } else {
      await link(source, target);
    }
  }
  return links;
}
