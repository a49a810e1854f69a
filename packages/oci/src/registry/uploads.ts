// Uploads under way: each is a temporary file that grows, and its hash with it.
// They live as long as the process; a client whose upload is gone starts it again.

import { randomUUID } from "node:crypto";
import { type FileHandle, open, rm } from "node:fs/promises";
import type { Readable } from "node:stream";
import type { Digest } from "@exclave/core";
import type { BlobFiles } from "../blob-files.ts";
import { splitDigest } from "../digest.ts";
import { closeLater, diskFailure } from "../durable-files.ts";
import { type EarlySync, syncEarly } from "./early-sync.ts";
import { type Algorithm, type FileHash, hashFile } from "./file-hash.ts";
import { receiveBody } from "./receive-body.ts";
import { RegistryError } from "./registry-error.ts";

export interface Upload {
  readonly id: string;
  readonly repository: string;
  readonly size: number;
}

export interface Uploads {
  /** The algorithm is a guess at the digest to come; a wrong one costs a second look at the bytes. */
  begin(repository: string, algorithm: Algorithm): Promise<Upload>;
  /** As it stands once all that reached it before its connection broke has been written. */
  find(repository: string, id: string): Promise<Upload>;
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
  readonly hash: FileHash;
  readonly sync: EarlySync;
  size: number;
  /** The request that is at it; two would mix their bytes. */
  turn?: { readonly body: Readable | undefined; readonly done: Promise<void> } | undefined;
  usedAt: number;
}

const IDLE_MS_MAX = 60 * 60 * 1_000;

export function createUploads(blobs: BlobFiles, now: () => number): Uploads {
  const sessions = new Map<string, Session>();

  return { begin, find, append, finish, cancel, dropIdle, close };

  async function begin(repository: string, algorithm: Algorithm): Promise<Upload> {
    const file = await blobs.temporary();
    const handle = await open(file, "wx");
    const session: Session = {
      id: randomUUID(),
      repository,
      algorithm,
      file,
      handle,
      hash: hashFile(file, algorithm),
      sync: syncEarly(handle),
      size: 0,
      usedAt: now(),
    };
    sessions.set(session.id, session);
    return session;
  }

  async function find(repository: string, id: string): Promise<Upload> {
    const session = lookUp(repository, id);
    if (session.turn?.body?.destroyed) await session.turn.done;
    return lookUp(repository, id);
  }

  function lookUp(repository: string, id: string): Session {
    const session = sessions.get(id);
    if (session?.repository === repository) return session;
    throw new RegistryError("BLOB_UPLOAD_UNKNOWN", "there is no such upload");
  }

  async function append(upload: Upload, body: Readable): Promise<void> {
    await exclusively(upload, body, (session) =>
      receiveBody(body, async (batch) => {
        try {
          await add(session, batch);
        } catch (reason) {
          // On a full disk, what an upload holds helps nobody.
          await drop(session);
          throw diskFailure(reason);
        }
      }),
    );
  }

  async function finish(upload: Upload, digest: Digest, keep: (file: string) => Promise<void>) {
    await exclusively(upload, undefined, async (session) => {
      try {
        const [found] = await Promise.all([hashOf(session, digest), session.sync.finish()]);
        if (found !== digest) {
          throw new RegistryError("DIGEST_INVALID", `the bytes are ${found}, not ${digest}`);
        }
        await keep(session.file);
      } catch (reason) {
        await drop(session);
        throw diskFailure(reason);
      }
      sessions.delete(session.id);
      session.hash.drop();
      closeLater(session.handle);
    });
  }

  async function cancel(upload: Upload): Promise<void> {
    await exclusively(upload, undefined, drop);
  }

  async function close(): Promise<void> {
    for (const session of sessions.values()) await drop(session);
  }

  async function exclusively(
    upload: Upload,
    body: Readable | undefined,
    work: (session: Session) => Promise<void>,
  ): Promise<void> {
    const session = lookUp(upload.repository, upload.id);
    if (session.turn) {
      throw new RegistryError("BLOB_UPLOAD_INVALID", "another request writes to this upload");
    }
    const { promise: done, resolve } = Promise.withResolvers<void>();
    session.turn = { body, done };
    try {
      await work(session);
    } finally {
      session.turn = undefined;
      session.usedAt = now();
      resolve();
    }
  }

  async function drop(session: Session): Promise<void> {
    if (!sessions.delete(session.id)) return;
    session.hash.drop();
    await session.handle.close();
    await rm(session.file, { force: true });
  }

  async function dropIdle(): Promise<void> {
    const idle = [...sessions.values()].filter(
      ({ turn, usedAt }) => !turn && now() - usedAt > IDLE_MS_MAX,
    );
    for (const session of idle) await drop(session);
  }
}

async function add(session: Session, batch: Buffer[]): Promise<void> {
  session.size = await writeBatch(session, batch);
  session.hash.reached(session.size);
  session.sync.reached(session.size);
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

async function hashOf({ hash, algorithm, file, size }: Session, digest: Digest): Promise<string> {
  const wanted = splitDigest(digest).algorithm;
  const right = wanted === algorithm ? hash : hashFile(file, wanted);
  return `${wanted}:${await right.digest(size)}`;
}
