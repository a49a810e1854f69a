// What an image's configuration means on a machine where its file system is only a directory: the
// paths that lie in the image are mapped into it, everything else is taken as it is written.

import { existsSync, realpathSync } from "node:fs";
import { isAbsolute, join, sep } from "node:path";
import { Failure } from "@exclave/core";
import type { UnpackedImage } from "./image-cache.ts";

/** The command an image runs. Its program must be the image's own: nothing else was synced. */
export function imageCommand({ root, config }: UnpackedImage): [string, ...string[]] {
  const [program, ...args] = [...config.entrypoint, ...config.cmd];
  if (program === undefined) {
    throw new Failure("invalid", "the image names no program to run");
  }
  const file = inImage(root, program);
  if (file === undefined || !liesIn(root, file)) {
    throw new Failure("invalid", `the image's program ${program} does not lie in the image`);
  }
  return [file, ...args.map((arg) => inImage(root, arg) ?? arg)];
}

/** The image's own variables; its search path leads into the image first, then to `path`. */
export function imageEnvironment(
  { root, config }: UnpackedImage,
  path: string,
): Record<string, string> {
  const variables = Object.fromEntries(
    config.env.map((entry): [string, string] => {
      const end = entry.indexOf("=");
      return end < 0 ? [entry, ""] : [entry.slice(0, end), entry.slice(end + 1)];
    }),
  );
  const inside = (variables.PATH ?? "").split(":").flatMap((entry) => inImage(root, entry) ?? []);
  return { ...variables, PATH: [...inside, path].join(":") };
}

function inImage(root: string, path: string): string | undefined {
  if (!isAbsolute(path)) return undefined;
  // Joining resolves every "..", so the result cannot climb out of the root.
  const inside = join(root, join("/", path));
  return existsSync(inside) ? inside : undefined;
}

/** A link in the image may still point out of it. */
function liesIn(root: string, file: string): boolean {
  return realpathSync(file).startsWith(realpathSync(root) + sep);
}
