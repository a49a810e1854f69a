// A component's source as one archive: equal files give equal bytes, so that an unchanged component
// is neither uploaded nor built again.

import { createHash } from "node:crypto";
import { lstat, readdir, readFile, readlink } from "node:fs/promises";
import { join } from "node:path";
import { Digest, type TarEntry, writeTar } from "@exclave/core";
import { readIfThere } from "@exclave/machine";
import { CliProblem } from "../program/problem.ts";

export interface SourceArchive {
  readonly digest: Digest;
  readonly bytes: Uint8Array;
  readonly files: number;
}

const IGNORE_FILE = ".exclaveignore";
const ALWAYS_IGNORED = [
  ".git",
  "node_modules/.cache",
  ".DS_Store",
  IGNORE_FILE,
  // What a developer's own Terraform runs left: copies of providers, and state with secrets in it.
  ".terraform",
  "*.tfstate",
  "*.tfstate.backup",
  "*.tfstate.*.backup",
  "*.tfstate.lock.info",
  "terraform.tfstate.d",
];
const SIZE_MAX_BYTES = 512 * 1024 * 1024;

export async function packSource(directory: string): Promise<SourceArchive> {
  const isIgnored = ignoreRules([
    ...ALWAYS_IGNORED,
    ...((await readIfThere(join(directory, IGNORE_FILE)))?.split("\n") ?? []),
  ]);
  const entries = await collect(directory, "", isIgnored);
  const bytes = writeTar(entries);
  const digest = Digest.parse(`sha256:${createHash("sha256").update(bytes).digest("hex")}`);
  return { digest, bytes, files: entries.filter(({ type }) => type === "file").length };
}

/** Everything below `below`, parents before children. */
async function collect(
  root: string,
  below: string,
  isIgnored: (path: string) => boolean,
  taken = { sizeBytes: 0 },
): Promise<TarEntry[]> {
  const entries: TarEntry[] = [];
  for (const name of (await readdir(join(root, below))).toSorted()) {
    const path = below === "" ? name : `${below}/${name}`;
    if (isIgnored(path)) continue;
    const full = join(root, path);
    const stat = await lstat(full);
    if (stat.isDirectory()) {
      entries.push({ type: "directory", path, mode: 0o755 });
      entries.push(...(await collect(root, path, isIgnored, taken)));
    } else if (stat.isSymbolicLink()) {
      entries.push({ type: "symlink", path, target: await readlink(full) });
    } else if (stat.isFile()) {
      taken.sizeBytes += stat.size;
      if (taken.sizeBytes > SIZE_MAX_BYTES) throw tooLarge(root);
      // Only whether it can be run is the vendor's doing; the rest is the machine's umask.
      const mode = stat.mode & 0o100 ? 0o755 : 0o644;
      entries.push({ type: "file", path, mode, bytes: await readFile(full) });
    }
  }
  return entries;
}

function tooLarge(root: string): CliProblem {
  return new CliProblem("usage", `${root} holds more than 512 MiB of source`, {
    hint: `name what does not belong to the source in ${join(root, IGNORE_FILE)}`,
  });
}

/**
 * Patterns of `.exclaveignore`, one per line: a name anywhere in the source, or with a slash a path
 * from its root; `*` stands for anything but a slash; `#` starts a comment.
 */
export function ignoreRules(lines: readonly string[]): (path: string) => boolean {
  const rules = lines
    .map((line) => line.trim().replace(/\/$/, ""))
    .filter((line) => line !== "" && !line.startsWith("#"))
    .map(ruleOf);
  return (path) => rules.some((rule) => rule.test(path));
}

function ruleOf(pattern: string): RegExp {
  const isAnchored = pattern.includes("/");
  const body = pattern
    .replace(/^\.?\//, "")
    .split("*")
    .map((part) => part.replaceAll(/[.+?^${}()|[\]\\]/g, "\\$&"))
    .join("[^/]*");
  return new RegExp(isAnchored ? `^${body}$` : `(^|/)${body}$`);
}
