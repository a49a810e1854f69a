// The lowest layer of an image, unpacked once per digest and linked into every tree that stands on
// it: images of one family share their largest files instead of each having a copy.

import { randomUUID } from "node:crypto";
import {
  chmod,
  link,
  lstat,
  mkdir,
  readdir,
  readFile,
  readlink,
  rename,
  rm,
  stat,
  symlink,
  writeFile,
} from "node:fs/promises";
import { join, posix } from "node:path";
import { unlessAbsent } from "../content/blob-files.ts";
import type { Descriptor } from "../content/descriptor.ts";

export interface BaseLayers {
  readonly directory: string;
  /** Makes a tree read-only and knows whether it is still what it was: every image shares it. */
  readonly seals: {
    seal(directory: string): Promise<string>;
    matches(directory: string, seal: string): Promise<boolean>;
  };
  /** Told before a tree that somebody changed is thrown away. */
  readonly onChanged?: ((because: string) => Promise<void>) | undefined;
}

/**
 * Puts the layer's tree into `directory`; `unpack` is asked for it the first time, and again when
 * somebody changed what it had left. Gives back
 * the symbolic links in it: what lies above may lead them elsewhere, so they are checked again.
 */
export async function placeBaseLayer(
  { directory: cache, seals, onChanged }: BaseLayers,
  { digest }: Descriptor,
  directory: string,
  unpack: (directory: string) => Promise<unknown>,
): Promise<string[]> {
  const tree = join(cache, digest.replace(":", "-"));
  const changed = `the unpacked base layer ${digest} was changed on this machine; it is unpacked again`;
  return inTurn(tree, async () => {
    if (!(await isWhole(tree, seals))) {
      if (await unlessAbsent(stat(tree))) await onChanged?.(changed);
      await unpackAnew(tree, seals, unpack);
    }
    return linkTree(tree, directory, ".");
  });
}

const turns = new Map<string, Promise<unknown>>();

/** One after the other for each tree: nobody discards what somebody else is linking from. */
async function inTurn<Value>(tree: string, work: () => Promise<Value>): Promise<Value> {
  const before = turns.get(tree) ?? Promise.resolve();
  const turn = before.then(work, work);
  turns.set(tree, turn);
  try {
    return await turn;
  } finally {
    if (turns.get(tree) === turn) turns.delete(tree);
  }
}

const sealFileOf = (tree: string) => `${tree}.seal`;

async function isWhole(tree: string, seals: BaseLayers["seals"]): Promise<boolean> {
  const seal = await unlessAbsent(readFile(sealFileOf(tree), "utf8"));
  return seal !== undefined && (await seals.matches(tree, seal));
}

async function unpackAnew(
  tree: string,
  seals: BaseLayers["seals"],
  unpack: (directory: string) => Promise<unknown>,
): Promise<void> {
  // The tree first: one without a seal would look changed after a crash in between.
  await removeSealed(tree);
  await rm(sealFileOf(tree), { force: true });
  // Made whole beside its place, so that a crash leaves nothing that looks finished.
  const draft = `${tree}.${randomUUID()}`;
  try {
    await unpack(draft);
    await writeFile(sealFileOf(tree), await seals.seal(draft), { mode: 0o600 });
    await rename(draft, tree).catch(async (reason) => {
      if (!(await unlessAbsent(stat(tree)))) throw reason;
    });
  } finally {
    await removeSealed(draft);
  }
}

/** What may not be written to cannot be emptied. */
async function removeSealed(path: string): Promise<void> {
  const found = await unlessAbsent(lstat(path));
  if (found?.isDirectory()) {
    await chmod(path, 0o700);
    const entries = await readdir(path, { withFileTypes: true });
    for (const entry of entries) {
      if (entry.isDirectory()) await removeSealed(join(path, entry.name));
    }
  }
  await rm(path, { recursive: true, force: true });
}

async function linkTree(from: string, to: string, path: string): Promise<string[]> {
  // Writable for as long as layers are put over it; whoever keeps the tree seals it.
  await mkdir(to, { recursive: true, mode: ((await stat(from)).mode & 0o777) | 0o700 });
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
