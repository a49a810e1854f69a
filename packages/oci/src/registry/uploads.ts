// Uploads under way: each is a temporary file that grows, with the hash of what it holds so far.
// They live as long as the process; a client whose upload is gone starts it again.

import { createHash, type Hash, randomUUID } from "node:crypto";
import { createReadStream } from "node:fs";
import { type FileHandle, open, rm } from "node:fs/promises";
import type { Digest } from "@exclave/core";
import { type BlobFiles, writeAll } from "../blob-files.ts";
import { splitDigest } from "../digest.ts";
import { RegistryError } from "./registry-error.ts";

export interface Upload {
  readonly id: string;
  readonly repository: string;
  readonly size: number;
}

export interface Uploads {
  begin(repository: string): Promise<Upload>;
  find(repository: string, id: string): Upload;
  /** Adds bytes at the end. What arrived before a broken connection stays, so it can be resumed. */
  append(upload: Upload, bytes: AsyncIterable<Uint8Array>): Promise<void>;
  /** Turns the upload into content under its digest, or drops it if the bytes are others. */
  commit(upload: Upload, digest: Digest): Promise<void>;
  cancel(upload: Upload): Promise<void>;
  close(): Promise<void>;
}

interface Session {
  readonly id: string;
  readonly repository: string;
  readonly file: string;
  readonly handle: FileHandle;
  readonly hash: Hash;
  size: number;
  isBusy: boolean;
  usedAt: number;
}

const IDLE_MS_MAX = 60 * 60 * 1_000;

export function createUploads(blobs: BlobFiles, now: () => number): Uploads {
  const sessions = new Map<string, Session>();

  return { begin, find, append, commit, cancel, close };

  async function begin(repository: string): Promise<Upload> {
    await dropIdle();
    const file = await blobs.temporary();
    const handle = await open(file, "wx");
    const id = randomUUID();
    const hash = createHash("sha256");
    const session = { id, repository, file, handle, hash, size: 0, isBusy: false, usedAt: now() };
    sessions.set(id, session);
    return session;
  }

  function find(repository: string, id: string): Session {
    const session = sessions.get(id);
    if (session?.repository === repository) return session;
    throw new RegistryError("BLOB_UPLOAD_UNKNOWN", "there is no such upload");
  }

  async function append(upload: Upload, bytes: AsyncIterable<Uint8Array>): Promise<void> {
    await exclusively(upload, async (session) => {
      for await (const chunk of bytes) {
        await writeAll(session.handle, chunk);
        session.hash.update(chunk);
        session.size += chunk.length;
      }
    });
  }

  async function commit(upload: Upload, digest: Digest): Promise<void> {
    await exclusively(upload, async (session) => {
      try {
        const found = await hashOf(session, digest);
        if (found !== digest) {
          throw new RegistryError("DIGEST_INVALID", `the bytes are ${found}, not ${digest}`);
        }
        await session.handle.sync();
        await blobs.adopt(session.file, digest);
      } finally {
        await drop(session);
      }
    });
  }

  async function cancel(upload: Upload): Promise<void> {
    await exclusively(upload, drop);
  }

  async function close(): Promise<void> {
    for (const session of sessions.values()) await drop(session);
  }

  /** Two writers on one upload would mix their bytes. */
  async function exclusively(upload: Upload, work: (session: Session) => Promise<void>) {
    const session = find(upload.repository, upload.id);
    if (session.isBusy) {
      throw new RegistryError("BLOB_UPLOAD_INVALID", "another request writes to this upload");
    }
    session.isBusy = true;
    try {
      await work(session);
    } finally {
      session.isBusy = false;
      session.usedAt = now();
    }
  }

  async function drop(session: Session): Promise<void> {
    sessions.delete(session.id);
    await session.handle.close();
    await rm(session.file, { force: true });
  }

  async function dropIdle(): Promise<void> {
    const idle = [...sessions.values()].filter(
      ({ isBusy, usedAt }) => !isBusy && now() - usedAt > IDLE_MS_MAX,
    );
    for (const session of idle) await drop(session);
  }
}

async function hashOf({ hash, file }: Session, digest: Digest): Promise<string> {
  const { algorithm } = splitDigest(digest);
  if (algorithm === "sha256") return `sha256:${hash.digest("hex")}`;
  const other = createHash(algorithm);
  for await (const chunk of createReadStream(file)) other.update(chunk as Buffer);
  return `${algorithm}:${other.digest("hex")}`;
}
