// Source archives, content-addressed, as files.

import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { open, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { type Digest, Failure } from "@exclave/core";
import { placeDurably, unlessAbsent } from "@exclave/machine";
import { newSecret } from "../identifiers.ts";

export interface SourceArchives {
  /** Under its digest only when all bytes are there, durable, and are what the digest says. Returns how many. */
  receive(digest: Digest, body: AsyncIterable<Uint8Array>): Promise<number>;
  /** Undefined where it is not. */
  open(digest: Digest): Promise<OpenSource | undefined>;
}

export interface OpenSource {
  readonly sizeBytes: number;
  readonly bytes: Readable;
}

export const SOURCE_BYTES_MAX = 1024 * 1024 * 1024;

export function createSourceFiles(directory: string): SourceArchives {
  const file = (digest: Digest) => join(directory, `${digest.replace(":", "-")}.tar`);

  return {
    async receive(digest, body) {
      const beside = join(directory, `.${newSecret()}.part`);
      const handle = await open(beside, "wx", 0o600);
      try {
        let sizeBytes = 0;
        for await (const chunk of checked(digest, body)) {
          await handle.write(chunk);
          sizeBytes += chunk.length;
        }
        await placeDurably(handle, beside, file(digest));
        return sizeBytes;
      } catch (reason) {
        await rm(beside, { force: true });
        throw reason;
      } finally {
        await handle.close();
      }
    },

    async open(digest) {
      const found = await unlessAbsent(stat(file(digest)));
      return found && { sizeBytes: found.size, bytes: createReadStream(file(digest)) };
    },
  };
}

/** The bytes as they come. Ends only if they are what the digest says, and not too many. */
export async function* checked(
  digest: Digest,
  body: AsyncIterable<Uint8Array>,
): AsyncIterable<Uint8Array> {
  const hash = createHash("sha256");
  let sizeBytes = 0;
  for await (const chunk of body) {
    sizeBytes += chunk.length;
    if (sizeBytes > SOURCE_BYTES_MAX) {
      throw new Failure("too_large", `a source may have ${SOURCE_BYTES_MAX} bytes at most`);
    }
    hash.update(chunk);
    yield chunk;
  }
  const got = `sha256:${hash.digest("hex")}`;
  if (got !== digest) throw new Failure("invalid", `the bytes that came are ${got}, not ${digest}`);
}
