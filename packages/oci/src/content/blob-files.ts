// Content-addressed files, `blobs/<algorithm>/<hex>`, as an OCI layout has them. A file under its
// digest is always whole: bytes are checked and synced in a temporary file before they get the name.

import { randomUUID } from "node:crypto";
import { createReadStream } from "node:fs";
import { type FileHandle, open, readFile, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Digest } from "@exclave/core";
import {
  diskFailure,
  inSyncTurn,
  makeDirectory,
  renameMaking,
  SHARED,
  syncDirectory,
  unlessAbsent,
  writeDurably,
} from "@exclave/machine";
import {
  type ByteSource,
  createVerifier,
  type Expected,
  openSource,
  splitDigest,
} from "./digest.ts";

export { unlessAbsent } from "@exclave/machine";

/** As open as the umask lets it be: a layout is there to be handed on. */
export function writeFileDurably(file: string, text: string): Promise<void> {
  return writeDurably(file, text, SHARED);
}

export interface BlobFiles {
  size(digest: Digest): Promise<number | undefined>;
  path(digest: Digest): string;
  /** From one byte to another, both counted, as HTTP ranges do. */
  read(digest: Digest, range?: { readonly from?: number; readonly to?: number }): FileBytes;
  write(expected: Expected, source: ByteSource, signal?: AbortSignal): Promise<void>;
  /** Gives a file whose bytes are known to have this digest its name. */
  adopt(file: string, digest: Digest): Promise<void>;
  remove(digest: Digest): Promise<void>;
  /** A name for a file that does not count until it is adopted. */
  temporary(): Promise<string>;
  /** Drops what a killed process left half written. Only for whoever has the directory alone. */
  sweep(): Promise<void>;
}

export type FileBytes = AsyncIterable<Uint8Array> & { destroy(): void };

const READ_BYTES = 256 * 1024;

export function createBlobFiles(directory: string): BlobFiles {
  const temporaryDirectory = join(directory, "tmp");

  return { size, path, read, write, adopt, remove, temporary, sweep };

  function path(digest: Digest): string {
    const { algorithm, hex } = splitDigest(digest);
    return join(directory, "blobs", algorithm, hex);
  }

  async function size(digest: Digest): Promise<number | undefined> {
    return (await unlessAbsent(stat(path(digest))))?.size;
  }

  function read(digest: Digest, { from = 0, to }: { from?: number; to?: number } = {}) {
    const end = to === undefined ? {} : { end: to };
    return createReadStream(path(digest), { start: from, ...end, highWaterMark: READ_BYTES });
  }

  async function write(expected: Expected, source: ByteSource, signal?: AbortSignal) {
    const file = await temporary();
    const handle = await open(file, "wx").catch((reason: unknown) => {
      throw diskFailure(reason);
    });
    try {
      const verifier = createVerifier(expected);
      let at = 0;
      for await (const chunk of openSource(source)) {
        signal?.throwIfAborted();
        verifier.update(chunk, at);
        await writeAll(handle, chunk);
        at += chunk.length;
      }
      verifier.finish();
      await inSyncTurn(() => handle.sync());
      await adopt(file, expected.digest);
    } catch (reason) {
      throw diskFailure(reason);
    } finally {
      await handle.close();
      await rm(file, { force: true });
    }
  }

  async function adopt(file: string, digest: Digest): Promise<void> {
    await renameMaking(file, path(digest));
    await syncDirectory(dirname(path(digest)));
  }

  async function remove(digest: Digest): Promise<void> {
    await rm(path(digest), { force: true });
  }

  async function temporary(): Promise<string> {
    try {
      // The first directories of a store: without a sync, all that is below them could be lost.
      await makeDirectory(temporaryDirectory);
    } catch (reason) {
      throw diskFailure(reason);
    }
    return join(temporaryDirectory, randomUUID());
  }

  async function sweep(): Promise<void> {
    await rm(temporaryDirectory, { recursive: true, force: true });
  }
}

export async function writeAll(handle: FileHandle, chunk: Uint8Array): Promise<void> {
  let written = 0;
  while (written < chunk.length) {
    written += (await handle.write(chunk, written, chunk.length - written)).bytesWritten;
  }
}

export async function readFileIfThere(file: string): Promise<Buffer | undefined> {
  return unlessAbsent(readFile(file));
}
