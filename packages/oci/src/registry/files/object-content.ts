// The bytes a registry keeps, under their digests: in an object store. Uploads under way are files in a directory of this
// process, and go to the store when they are whole and known to have their digest.

import { once } from "node:events";
import { createReadStream } from "node:fs";
import { rm, stat } from "node:fs/promises";
import { type Digest, Failure } from "@exclave/core";
import { createBlobFiles } from "../../content/blob-files.ts";
import { createVerifier, openSource, splitDigest } from "../../content/digest.ts";
import { type ObjectStore, readPieces } from "../../objects/object-store.ts";
import type { RegistryContent } from "./registry-content.ts";
import type { RegistryTree } from "./registry-tree.ts";

const READ_BYTES = 1024 * 1024;
/** A collector may remove what was just written, believing it old; so often it is written again. */
const WRITES_MAX = 3;

export function createObjectContent(
  objects: ObjectStore,
  tree: Pick<RegistryTree, "isThere">,
  directory: string,
): RegistryContent {
  const local = createBlobFiles(directory);

  const content: RegistryContent = {
    temporary: () => local.temporary(),
    sweep: () => local.sweep(),

    size: async (digest) => (await objects.head(keyOf(digest)))?.sizeBytes,
    readWhole: (digest) => objects.read(keyOf(digest)),
    isThere: (digest) => tree.isThere(keyOf(digest)),

    async *read(digest, { from = 0, to } = {}) {
      const end = to ?? ((await content.size(digest)) ?? 0) - 1;
      yield* readPieces(objects, keyOf(digest), { from, to: end });
    },

    async send(response, digest, range) {
      for await (const piece of readPieces(objects, keyOf(digest), range)) {
        if (response.destroyed) throw new Error("the client left");
        if (!response.write(piece)) {
          await Promise.race([once(response, "drain"), once(response, "close")]);
        }
      }
      response.end();
    },

    async write(expected, source, signal) {
      const upload = objects.upload(keyOf(expected.digest), { sizeBytes: expected.size });
      try {
        const verifier = createVerifier(expected);
        let at = 0;
        for await (const chunk of openSource(source)) {
          signal?.throwIfAborted();
          verifier.update(chunk, at);
          await upload.write(chunk);
          at += chunk.length;
        }
        verifier.finish();
        await upload.complete();
      } catch (reason) {
        await upload.abort().catch(() => undefined);
        throw reason;
      }
    },

    async keep(file, digest, link) {
      for (let writes = 0; writes < WRITES_MAX; writes++) {
        await upload(file, digest);
        await link();
        if (!(await content.isThere(digest))) continue;
        await rm(file, { force: true });
        return;
      }
      throw new Failure("unavailable", `${digest} was collected as garbage while it came`);
    },

    async stamp(digest) {
      const head = await objects.head(keyOf(digest));
      return head && `${head.sizeBytes} ${head.modifiedAt}`;
    },

    // A copy for somebody to look at would cost as much as the content; the store keeps versions, if that is wanted.
    isolate: (digest) => objects.remove(keyOf(digest)),
  };
  return content;

  async function upload(file: string, digest: Digest): Promise<void> {
    const { size } = await stat(file);
    const sending = objects.upload(keyOf(digest), { sizeBytes: size });
    try {
      for await (const chunk of createReadStream(file, { highWaterMark: READ_BYTES })) {
        await sending.write(chunk as Buffer);
      }
      await sending.complete();
    } catch (reason) {
      await sending.abort().catch(() => undefined);
      throw reason;
    }
  }
}

function keyOf(digest: Digest): string {
  const { algorithm, hex } = splitDigest(digest);
  return `blobs/${algorithm}/${hex}`;
}
