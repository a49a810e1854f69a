// Which store a server's content is in, written down in its directory. A server that is started with another one would find
// none of its logs and none of what it released: it says so instead.

import { join } from "node:path";
import { Failure } from "@exclave/core";
import { readIfThere, writeDurably } from "@exclave/machine";
import { z } from "zod";

const FILE = "content-place.json";
const Place = z.object({ store: z.string() });
const FILES = "files";

export interface ContentPlace {
  /** The bucket and prefix, or undefined for files in the directory. */
  readonly objects: string | undefined;
  /** Whether the directory has content of an earlier start. */
  readonly hasFiles: () => Promise<boolean>;
}

export async function checkContentPlace(
  directory: string,
  { objects, hasFiles }: ContentPlace,
): Promise<void> {
  const file = join(directory, FILE);
  const text = await readIfThere(file);
  // Before there was a choice, content was in files.
  const kept = text === undefined ? ((await hasFiles()) ? FILES : undefined) : storeIn(text, file);
  const wanted = objects ?? FILES;
  if (kept === undefined || kept === wanted) {
    if (text === undefined) await writeDurably(file, `${JSON.stringify({ store: wanted })}\n`);
    return;
  }
  const said = (store: string) => (store === FILES ? "files in its directory" : store);
  throw new Failure(
    "conflict",
    `this server's content is in ${said(kept)}, and it was started for ${said(wanted)}: ` +
      "set EXCLAVE_OBJECT_STORE as before, or begin with an empty data directory",
  );
}

function storeIn(text: string, file: string): string {
  try {
    return Place.parse(JSON.parse(text)).store;
  } catch (cause) {
    throw new Failure("conflict", `${file} is damaged`, { cause });
  }
}
