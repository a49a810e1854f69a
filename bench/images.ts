// Images of random bytes: nothing can be compressed away, and no layer is like another.

import { createHash, randomBytes } from "node:crypto";
import { createReadStream, createWriteStream } from "node:fs";
import { rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";
import type { Digest } from "@exclave/core";
import { type ContentStore, type Descriptor, MEDIA_TYPES, writeBlobBytes } from "@exclave/oci";

const MEGABYTE = 1024 * 1024;

/** Pushes an image of that many layers of that size, and returns its digest. */
export async function pushImage(
  store: ContentStore,
  repository: string,
  shape: { readonly layers: number; readonly megabytes: number },
  directory: string,
): Promise<Digest> {
  const layers: Descriptor[] = [];
  const diffIds: string[] = [];
  for (let n = 0; n < shape.layers; n++) {
    const file = join(directory, `layer-${n}`);
    const plain = createHash("sha256");
    const packed = createHash("sha256");
    // Stored, not compressed: other tools look for a gzip header, and would pack a layer without.
    await pipeline(
      Readable.from(through(noise(shape.megabytes), plain)),
      createGzip({ level: 0, chunkSize: MEGABYTE }),
      (chunks: AsyncIterable<Buffer>) => through(chunks, packed),
      createWriteStream(file),
    );
    const { size } = await stat(file);
    const digest = `sha256:${packed.digest("hex")}` as Digest;
    const layer = { mediaType: MEDIA_TYPES.layerGzip, digest, size };
    await store.writeBlob(repository, layer, (start) => createReadStream(file, { start }));
    await rm(file);
    layers.push(layer);
    diffIds.push(`sha256:${plain.digest("hex")}`);
  }
  const image = {
    architecture: "amd64",
    os: "linux",
    config: {},
    rootfs: { type: "layers", diff_ids: diffIds },
  };
  const bytes = Buffer.from(JSON.stringify(image));
  const config = await writeBlobBytes(store, repository, MEDIA_TYPES.imageConfig, bytes);
  const mediaType = MEDIA_TYPES.manifest;
  const manifest = Buffer.from(JSON.stringify({ schemaVersion: 2, mediaType, config, layers }));
  return store.writeManifest(repository, manifest, mediaType, "v1");
}

async function* noise(megabytes: number): AsyncIterable<Buffer> {
  for (let n = 0; n < megabytes; n++) yield randomBytes(MEGABYTE);
}

async function* through(chunks: AsyncIterable<Buffer>, hash: ReturnType<typeof createHash>) {
  for await (const chunk of chunks) {
    hash.update(chunk);
    yield chunk;
  }
}
