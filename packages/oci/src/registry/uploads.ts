// Uploads under way: each is a temporary file that grows, with the hash of what it holds so far.
// They live as long as the process; a client whose upload is gone starts it again.

import { createHash, type Hash, randomUUID } from "node:crypto";
import { createReadStream } from "node:fs";
import { type FileHandle, open, rm } from "node:fs/promises";
import type { Readable } from "node:stream";
import type { Digest } from "@exclave/core";
import type { BlobFiles } from "../blob-files.ts";
import { splitDigest } from "../digest.ts";
import { diskFailure } from "../durable-files.ts";
import { receiveBody } from "./receive-body.ts";
import { RegistryError } from "./registry-error.ts";

export type Algorithm = "sha256" | "sha512";

export interface Upload {
  readonly id: string;
  readonly repository: string;
  readonly size: number;
}

export interface Uploads {
  /** The algorithm is a guess at the digest to come; a wrong one costs a second look at the bytes. */
  begin(repository: string, algorithm: Algorithm): Promise<Upload>;
  find(repository: string, id: string): Upload;
  /** Adds bytes at the end. What arrived before a broken connection stays, so it can be resumed. */
  append(upload: Upload, body: Readable): Promise<void>;
  /** Hands over a synced file with this digest, or drops the upload if its bytes are others. */
  finish(upload: Upload, digest: Digest, keep: (file: string) => Promise<void>): Promise<void>;
  cancel(upload: Upload): Promise<void>;
  /** Forgets uploads that nobody has touched for an hour. */
  dropIdle(): Promise<void>;
  close(): Promise<void>;
}

interface Session {
  readonly id: string;
  readonly repository: string;
  readonly algorithm: Algorithm;
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

  return { begin, find, append, finish, cancel, dropIdle, close };

  async function begin(repository: string, algorithm: Algorithm): Promise<Upload> {
    const file = await blobs.temporary();
    const session: Session = {
      id: randomUUID(),
      repository,
      algorithm,
      file,
      handle: await open(file, "wx"),
      hash: createHash(algorithm),
      size: 0,
      isBusy: false,
      usedAt: now(),
    };
    sessions.set(session.id, session);
    return session;
  }

  function find(repository: string, id: string): Session {
    const session = sessions.get(id);
    if (session?.repository === repository) return session;
    throw new RegistryError("BLOB_UPLOAD_UNKNOWN", "there is no such upload");
  }

  async function append(upload: Upload, body: Readable): Promise<void> {
    await exclusively(upload, (session) =>
      receiveBody(body, async (batch) => {
        try {
          await add(session, batch);
        } catch (reason) {
          // The hash may know bytes that the file does not have: it cannot go on from here.
          await drop(session);
          throw diskFailure(reason);
        }
      }),
    );
  }

  async function finish(upload: Upload, digest: Digest, keep: (file: string) => Promise<void>) {
    await exclusively(upload, async (session) => {
      try {
        const found = await hashOf(session, digest);
        if (found !== digest) {
          throw new RegistryError("DIGEST_INVALID", `the bytes are ${found}, not ${digest}`);
        }
        await session.handle.sync();
        await keep(session.file);
      } catch (reason) {
        throw diskFailure(reason);
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
    if (!sessions.delete(session.id)) return;
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

/** Hashes here while the system writes there. */
async function add(session: Session, batch: Buffer[]): Promise<void> {
  const writing = writeBatch(session, batch);
  for (const chunk of batch) session.hash.update(chunk);
  session.size = await writing;
}

async function writeBatch({ handle, size }: Session, batch: Buffer[]): Promise<number> {
  let at = size;
  const total = batch.reduce((sum, chunk) => sum + chunk.length, 0);
  const { bytesWritten } = await handle.writev(batch, at);
  at += bytesWritten;
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

async function hashOf({ hash, algorithm, file }: Session, digest: Digest): Promise<string> {
  const wanted = splitDigest(digest).algorithm;
  if (wanted === algorithm) return `${algorithm}:${hash.digest("hex")}`;
  const other = createHash(wanted);
  for await (const chunk of createReadStream(file)) other.update(chunk as Buffer);
  return `${wanted}:${other.digest("hex")}`;
}
