// The image below all others: Node and what it needs to run in a container. Packing it takes longer than all the
// rest, so it is made once and found again by the digest of its files.

import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Digest } from "@exclave/core";
import { z } from "zod";
import type { ContentStore } from "../content/content-store.ts";
import { packImage } from "../pack/pack.ts";
import { digestBase, gatherBase } from "./base-files.ts";

export interface NodeImageOptions {
  readonly store: ContentStore;
  readonly repository: string;
  readonly nodePath: string;
  /** Where the note is kept that says which image holds which binary. */
  readonly directory: string;
  readonly log: (line: string) => void;
}

const Note = z.object({ binary: z.string(), digest: Digest });

export async function packNodeImage(options: NodeImageOptions): Promise<Digest> {
  const { store, repository, nodePath, directory, log } = options;
  const files = await gatherBase(nodePath);
  const binary = await digestBase(files);
  const noteFile = join(directory, "node-image.json");
  const note = await readNote(noteFile);
  if (note?.binary === binary && (await store.headManifest(repository, note.digest))) {
    return note.digest;
  }

  log(`packing node ${process.version}, once`);
  const { digest } = await packImage({
    store,
    repository,
    layers: [{ files }],
    // Half the time of the usual level for a few percent more bytes.
    compressionLevel: 3,
  });
  await writeFile(noteFile, JSON.stringify({ binary, digest }));
  return digest;
}

async function readNote(path: string): Promise<z.infer<typeof Note> | undefined> {
  try {
    return Note.parse(JSON.parse(await readFile(path, "utf8")));
  } catch {
    return undefined;
  }
}
