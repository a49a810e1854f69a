// Uploads under way, and which request is at which of them.
// They live as long as the process; a client whose upload is gone starts it again.

import { randomUUID } from "node:crypto";
import type { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import type { Digest } from "@exclave/core";
import { diskFailure } from "@exclave/machine";
import type { BlobFiles } from "../../content/blob-files.ts";
import { RegistryError } from "../registry-error.ts";
import type { Algorithm } from "./file-hash.ts";
import { receiveBody } from "./receive-body.ts";
import { createUploadFile, type UploadFile } from "./upload-file.ts";

export interface Upload {
  readonly id: string;
  readonly repository: string;
  readonly size: number;
}

export interface Uploads {
  /** The algorithm is a guess at the digest to come; a wrong one costs a second look at the bytes. */
  begin(repository: string, algorithm: Algorithm): Promise<Upload>;
  /** How far it is. Disturbs nobody who is at it, but waits a little for one whose connection broke. */
  find(repository: string, id: string): Promise<Upload>;
  /**
   * Gives the upload to one request, as long as `work` takes. The one before is cut off, and what has
   * arrived of it is kept: a client comes again when its connection broke, whether or not the break
   * has been noticed here.
   */
  take(repository: string, id: string, work: (upload: OwnUpload) => Promise<void>): Promise<void>;
  /** Forgets uploads that nobody has touched for an hour. */
  dropIdle(): Promise<void>;
  close(): Promise<void>;
}

/** An upload in the hands of the only request that may change it. */
export interface OwnUpload extends Upload {
  /** Adds bytes at the end. What arrived before a broken connection stays, so it can be resumed. */
  append(body: Readable): Promise<void>;
  /** Hands over a synced file with this digest, or drops the upload if its bytes are others. */
  finish(digest: Digest, keep: (file: string) => Promise<void>): Promise<void>;
  cancel(): Promise<void>;
}

interface Session {
  readonly id: string;
  readonly repository: string;
  readonly file: UploadFile;
  turn?: Turn | undefined;
  usedAt: number;
}

/** A request that is at an upload. */
interface Turn {
  readonly done: Promise<void>;
  body?: Readable;
  /** Whether it waits for bytes, and not for the disk. */
  isListening: boolean;
}

const IDLE_MS_MAX = 60 * 60 * 1_000;
const UPLOADS_MAX = 4_096;

const LOOK_MS = 250;
/** A request that brings nothing from one look to the next, and the next, stands still. */
const STILL_LOOKS = 2;
const LOOKS_MAX = 12;

export function createUploads(
  blobs: BlobFiles,
  now: () => number,
  { uploadsMax = UPLOADS_MAX } = {},
): Uploads {
  const sessions = new Map<string, Session>();

  return { begin, find, take, dropIdle, close };

  async function begin(repository: string, algorithm: Algorithm): Promise<Upload> {
    if (sessions.size >= uploadsMax) await makeRoom();
    const file = createUploadFile(blobs, algorithm);
    const session: Session = { id: randomUUID(), repository, file, usedAt: now() };
    sessions.set(session.id, session);
    return show(session);
  }

  /** Whoever has sent nothing yet loses the least by starting again; the oldest of them goes. */
  async function makeRoom(): Promise<void> {
    const unused = [...sessions.values()].find(({ turn, file }) => !turn && file.size === 0);
    if (!unused) throw new RegistryError("TOOMANYREQUESTS", "too many uploads are under way");
    await drop(unused);
  }

  async function find(repository: string, id: string): Promise<Upload> {
    const session = lookUp(repository, id);
    session.usedAt = now();
    await settle(session);
    return show(lookUp(repository, id));
  }

  function lookUp(repository: string, id: string): Session {
    const session = sessions.get(id);
    if (session?.repository === repository) return session;
    throw new RegistryError("BLOB_UPLOAD_UNKNOWN", "there is no such upload");
  }

  async function take(
    repository: string,
    id: string,
    work: (upload: OwnUpload) => Promise<void>,
  ): Promise<void> {
    const session = lookUp(repository, id);
    while (session.turn) await cutOff(session.turn);
    // The one before may have finished it, or dropped it.
    lookUp(repository, id);
    const { promise: done, resolve } = Promise.withResolvers<void>();
    const turn: Turn = { done, isListening: false };
    session.turn = turn;
    try {
      await work(own(session, turn));
    } finally {
      session.file.rest();
      session.turn = undefined;
      session.usedAt = now();
      resolve();
    }
  }

  function own(session: Session, turn: Turn): OwnUpload {
    return Object.assign(show(session), {
      async append(body: Readable) {
        turn.body = body;
        turn.isListening = true;
        await receiveBody(body, async (batch) => {
          turn.isListening = false;
          await orDrop(session, () => session.file.append(batch));
          turn.isListening = true;
        });
        turn.isListening = false;
      },
      async finish(digest: Digest, keep: (file: string) => Promise<void>) {
        await orDrop(session, async () => keep(await session.file.finish(digest)));
        sessions.delete(session.id);
      },
      cancel: () => drop(session),
    });
  }

  /** On a full disk, what an upload holds helps nobody. */
  async function orDrop(session: Session, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (reason) {
      await drop(session);
      throw storageFailure(reason);
    }
  }

  async function drop(session: Session): Promise<void> {
    if (sessions.delete(session.id)) await session.file.remove();
  }

  async function dropIdle(): Promise<void> {
    for (const session of sessions.values()) {
      // Looked at right before: while another was dropped, its owner may have come back.
      const isIdle = !session.turn && now() - session.usedAt > IDLE_MS_MAX;
      if (isIdle) await drop(session);
    }
  }

  async function close(): Promise<void> {
    for (const session of sessions.values()) {
      while (session.turn) await cutOff(session.turn);
      await drop(session);
    }
  }
}

/** Live: its size grows with the upload. */
function show({ id, repository, file }: Session): Upload {
  return {
    id,
    repository,
    get size() {
      return file.size;
    },
  };
}

/** A request that has all its bytes goes on to its end, and is waited for. */
async function cutOff({ body, done }: Turn): Promise<void> {
  body?.destroy();
  await done;
}

/**
 * A connection that broke may leave megabytes in the system's hands, and its end shows only behind
 * them. So whoever asks how far the upload is waits until the request at it has ended or stands
 * still. One that goes on and on is alive, and the answer is how far it is by now.
 */
async function settle(session: Session): Promise<void> {
  let still = 0;
  for (let look = 0; session.turn && look < LOOKS_MAX && still < STILL_LOOKS; look++) {
    const { size } = session.file;
    await Promise.race([session.turn.done, sleep(LOOK_MS, undefined, { ref: false })]);
    still = session.turn?.isListening && session.file.size === size ? still + 1 : 0;
  }
}

function storageFailure(reason: unknown): unknown {
  const { code } = reason as NodeJS.ErrnoException;
  if (code !== "EMFILE" && code !== "ENFILE") return diskFailure(reason);
  // Over in a moment, so the client may retry; and not its fault, so the operator hears of it.
  const message = "the registry has too many files open";
  return new RegistryError("TOOMANYREQUESTS", message, { status: 503, cause: reason });
}
