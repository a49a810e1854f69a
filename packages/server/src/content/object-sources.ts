// Source archives, content-addressed, in an object store. They come in parts, and nothing of them is seen before all are there.

import { Readable } from "node:stream";
import type { Digest } from "@exclave/core";
import { type ObjectStore, readPieces } from "@exclave/oci/objects";
import { checked, type SourceArchives } from "./source-archives.ts";

export function createObjectSources(objects: ObjectStore): SourceArchives {
  const keyOf = (digest: Digest) => `${digest.replace(":", "-")}.tar`;

  return {
    async receive(digest, body) {
      const upload = objects.upload(keyOf(digest));
      let sizeBytes = 0;
      try {
        for await (const chunk of checked(digest, body)) {
          await upload.write(chunk);
          sizeBytes += chunk.length;
        }
        await upload.complete();
        return sizeBytes;
      } catch (reason) {
        // What cannot be given up now is given up later, with all that is left behind.
        await upload.abort().catch(() => undefined);
        throw reason;
      }
    },

    async open(digest) {
      const head = await objects.head(keyOf(digest));
      if (!head) return undefined;
      const range = { from: 0, to: head.sizeBytes - 1 };
      const bytes = Readable.from(readPieces(objects, keyOf(digest), range), { objectMode: false });
      return { sizeBytes: head.sizeBytes, bytes };
    },
  };
}
