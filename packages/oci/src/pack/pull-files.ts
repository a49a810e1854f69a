// An artifact's layers as files in a directory. What is there is replaced by bytes that were checked,
// or it stays as it is.

import { randomUUID } from "node:crypto";
import { createReadStream } from "node:fs";
import { mkdir, open, rename, rm } from "node:fs/promises";
import { basename, join } from "node:path";
import { createArchiveBudget, Failure } from "@exclave/core";
import { writeAll } from "../content/blob-files.ts";
import type { ContentStore } from "../content/content-store.ts";
import { type Descriptor, MEDIA_TYPES } from "../content/descriptor.ts";
import { verified } from "../content/digest.ts";
import { unpackOnto } from "../layer/unpack.ts";
import { guardLinks } from "../layer/unpack-links.ts";
import { TITLE, UNPACK } from "./file-annotations.ts";

export interface PullFiles {
  readonly store: ContentStore;
  readonly repository: string;
  readonly layers: readonly Descriptor[];
  readonly directory: string;
  readonly signal: AbortSignal;
}

/**
 * A layer with a name becomes a file of that name, whatever it is, unless it asks to be unpacked. An
 * archive without a name can only be meant to be unpacked.
 */
export async function pullFiles({ store, repository, layers, directory, signal }: PullFiles) {
  await mkdir(directory, { recursive: true });
  const budget = createArchiveBudget();
  await guardLinks(directory, async (links) => {
    for (const layer of layers) {
      const place = placeOf(layer);
      const stream = verified(store.readBlob(repository, layer.digest, { signal }), layer);
      await withWhole(stream, directory, signal, async (whole) => {
        // The name comes last, and replaces a link instead of following it.
        if (place.kind === "file") await rename(whole, join(directory, place.name));
        else {
          const archive = createReadStream(whole);
          await unpackOnto(archive, place.mediaType, directory, { signal, budget, links });
        }
      });
    }
  });
}

type Place =
  | { readonly kind: "archive"; readonly mediaType: string }
  | { readonly kind: "file"; readonly name: string };

function placeOf({ mediaType, annotations }: Descriptor): Place {
  const name = annotations?.[TITLE];
  if (annotations?.[UNPACK] === "true") {
    // Its media type is whatever its author chose; what oras packs is always gzip.
    const isSaid = /[+.](?:gzip|zstd|tar)$/.test(mediaType);
    return { kind: "archive", mediaType: isSaid ? mediaType : MEDIA_TYPES.layerGzip };
  }
  if (name === undefined) {
    if (/\btar\b/.test(mediaType)) return { kind: "archive", mediaType };
    throw new Failure("invalid", `a layer of ${mediaType} has no name to be written as`);
  }
  // A name from outside: it names a file here and no place elsewhere.
  const isName = basename(name) === name && !["", ".", ".."].includes(name) && !/\0/.test(name);
  if (isName) return { kind: "file", name };
  throw new Failure("invalid", `${JSON.stringify(name)} cannot be the name of a file`);
}

/** All of a layer in a file that has no name anybody looks for: wrong bytes never get further. */
async function withWhole(
  stream: AsyncIterable<Uint8Array>,
  directory: string,
  signal: AbortSignal,
  use: (file: string) => Promise<void>,
): Promise<void> {
  const temporary = join(directory, `.exclave-${randomUUID()}`);
  const handle = await open(temporary, "wx");
  try {
    for await (const chunk of stream) {
      signal.throwIfAborted();
      await writeAll(handle, chunk);
    }
    await use(temporary);
  } finally {
    await handle.close();
    await rm(temporary, { force: true });
  }
}
