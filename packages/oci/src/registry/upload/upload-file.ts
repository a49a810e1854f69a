// The file of one upload: it grows with every request, and its hash with it. It is there from the
// first byte on and open only while a request is at it, so that an upload which waits for its client
// costs next to nothing.

import { type FileHandle, open, rm } from "node:fs/promises";
import type { Digest } from "@exclave/core";
import { closeLater } from "@exclave/machine";
import type { BlobFiles } from "../../content/blob-files.ts";
import { splitDigest } from "../../content/digest.ts";
import { RegistryError } from "../registry-error.ts";
import { createEarlySync } from "./early-sync.ts";
import { type Algorithm, type FileHash, hashFile } from "./file-hash.ts";

export interface UploadFile {
  readonly size: number;
  append(batch: Buffer[]): Promise<void>;
  /** Where the file lies, synced, if its bytes have this digest; fails if they do not. */
  finish(digest: Digest): Promise<string>;
  /** Gives the descriptor back; whoever appends next opens the file again. */
  rest(): void;
  remove(): Promise<void>;
}

interface Made {
  readonly path: string;
  readonly hash: FileHash;
}

export function createUploadFile(
  blobs: Pick<BlobFiles, "temporary">,
  algorithm: Algorithm,
): UploadFile {
  // Knows of failures across requests. A page that cannot be written between two of them is told by
  // the first sync after the file was opened again, since Linux 4.16.
  const sync = createEarlySync();
  let made: Made | undefined;
  let handle: FileHandle | undefined;
  let size = 0;

  return {
    get size() {
      return size;
    },
    append,
    finish,
    rest,
    remove,
  };

  async function append(batch: Buffer[]): Promise<void> {
    const opened = await openFile();
    size = await writeBatch(opened.handle, batch, size);
    opened.hash.reached(size);
    sync.reached(size, opened.handle);
  }

  async function finish(digest: Digest): Promise<string> {
    const opened = await openFile();
    const [found] = await Promise.all([hashOf(opened, digest), sync.finish(opened.handle)]);
    if (found === digest) return opened.path;
    throw new RegistryError("DIGEST_INVALID", `the bytes are ${found}, not ${digest}`);
  }

  function rest(): void {
    // It closes once a sync under way has ended.
    if (handle) closeLater(handle);
    handle = undefined;
  }

  async function remove(): Promise<void> {
    rest();
    made?.hash.drop();
    if (made) await rm(made.path, { force: true });
  }

  async function openFile(): Promise<Made & { readonly handle: FileHandle }> {
    if (!made) {
      const path = await blobs.temporary();
      handle = await open(path, "wx");
      made = { path, hash: hashFile(path, algorithm) };
    }
    handle ??= await open(made.path, "r+");
    return { ...made, handle };
  }

  async function hashOf({ path, hash }: Made, digest: Digest): Promise<string> {
    const wanted = splitDigest(digest).algorithm;
    if (wanted === algorithm) return `${wanted}:${await hash.digest(size)}`;
    hash.drop();
    return `${wanted}:${await hashFile(path, wanted).digest(size)}`;
  }
}

/** Returns where the bytes end. */
async function writeBatch(handle: FileHandle, batch: Buffer[], from: number): Promise<number> {
  const total = batch.reduce((sum, chunk) => sum + chunk.length, 0);
  const { bytesWritten } = await handle.writev(batch, from);
  let at = from + bytesWritten;
  if (bytesWritten === total) return at;
  // A short write, as before a full disk.
  const rest = Buffer.concat(batch).subarray(bytesWritten);
  for (let done = 0; done < rest.length; ) {
    const written = await handle.write(rest, done, rest.length - done, at);
    done += written.bytesWritten;
    at += written.bytesWritten;
  }
  return at;
}
