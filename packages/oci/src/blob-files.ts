// Content-addressed files, `blobs/<algorithm>/<hex>`, as an OCI layout has them. A file under its
// digest is always whole: bytes are checked and synced in a temporary file before they get the name.

import { randomUUID } from "node:crypto";
import { createReadStream } from "node:fs";
import { type FileHandle, mkdir, open, readFile, rename, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { type Digest, Failure } from "@exclave/core";
import {
  type ByteSource,
  createVerifier,
  type Expected,
  openSource,
  splitDigest,
} from "./digest.ts";

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
    const handle = await open(file, "wx");
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
      await handle.sync();
      await adopt(file, expected.digest);
    } catch (reason) {
      throw diskFailure(reason);
    } finally {
      await handle.close();
      await rm(file, { force: true });
    }
  }

  async function adopt(file: string, digest: Digest): Promise<void> {
    await renameDurably(file, path(digest));
  }

  async function remove(digest: Digest): Promise<void> {
    await rm(path(digest), { force: true });
  }

  async function temporary(): Promise<string> {
    await mkdir(temporaryDirectory, { recursive: true });
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

/** A small file, replaced as a whole: a reader sees the old bytes or the new ones. */
export async function writeFileDurably(file: string, text: string): Promise<void> {
  await mkdir(dirname(file), { recursive: true });
  // A colon is in no repository name, tag or digest's hex, so this is never taken for a real entry.
  const temporary = join(dirname(file), `:${randomUUID()}`);
  const handle = await open(temporary, "wx");
  try {
    await handle.writeFile(text);
    await handle.sync();
    await renameDurably(temporary, file);
  } catch (reason) {
    await rm(temporary, { force: true });
    throw diskFailure(reason);
  } finally {
    await handle.close();
  }
}

export async function readFileIfThere(file: string): Promise<Buffer | undefined> {
  return unlessAbsent(readFile(file));
}

/** Undefined instead of a failure when a path does not lead to anything. */
export async function unlessAbsent<T>(looking: Promise<T>): Promise<T | undefined> {
  try {
    return await looking;
  } catch (reason) {
    const { code } = reason as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") return undefined;
    throw reason;
  }
}

/** The name itself must survive a power cut too, which needs the directory synced. */
async function renameDurably(from: string, to: string): Promise<void> {
  await mkdir(dirname(to), { recursive: true });
  await rename(from, to);
  const directory = await open(dirname(to), "r");
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}

function diskFailure(reason: unknown): unknown {
  const { code } = reason as NodeJS.ErrnoException;
  if (code !== "ENOSPC" && code !== "EDQUOT") return reason;
  return new Failure("disk_full", "there is no room left for content", { cause: reason });
}
