// The image with nothing but Node, below all others. Packing it takes longer than all the rest, so
// it is made once per binary and found again by the binary's digest.

import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { Digest } from "@exclave/core";
import { z } from "zod";
import type { ContentStore } from "../content/content-store.ts";
import { packImage } from "../pack/pack.ts";

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
  const binary = await digestFile(nodePath);
  const noteFile = join(directory, "node-image.json");
  const note = await readNote(noteFile);
  if (note?.binary === binary && (await store.headManifest(repository, note.digest))) {
    return note.digest;
  }

  log(`packing node ${process.version}, once`);
  // Room for the libraries it is linked to, where an image has to stand without the machine's.
  const files = [{ path: "exclave/bin/node", from: nodePath, executable: true }];
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

async function digestFile(path: string): Promise<string> {
  const hash = createHash("sha256");
  await pipeline(createReadStream(path, { highWaterMark: 1 << 20 }), hash);
  return hash.digest("hex");
}

async function readNote(path: string): Promise<z.infer<typeof Note> | undefined> {
  try {
    return Note.parse(JSON.parse(await readFile(path, "utf8")));
  } catch {
    return undefined;
  }
}
