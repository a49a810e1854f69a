// Uploads under way. They live as long as the process; a client whose upload is gone starts it again.

import type { Readable } from "node:stream";
import type { Digest } from "@exclave/core";
import { diskFailure } from "@exclave/machine";
import type { BlobFiles } from "../../content/blob-files.ts";
import { RegistryError } from "../registry-error.ts";
import type { Algorithm } from "./file-hash.ts";
import { receiveBody } from "./receive-body.ts";
import { createUploadFile } from "./upload-file.ts";
import {
  createUploadSession,
  cutOff,
  inTurn,
  settle,
  type Turn,
  type UploadSession,
} from "./upload-session.ts";

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

const IDLE_MS_MAX = 60 * 60 * 1_000;
const UPLOADS_MAX = 4_096;

export function createUploads(
  blobs: Pick<BlobFiles, "temporary">,
  now: () => number,
  { uploadsMax = UPLOADS_MAX } = {},
): Uploads {
  const sessions = new Map<string, UploadSession>();

  return { begin, find, take, dropIdle, close };

  async function begin(repository: string, algorithm: Algorithm): Promise<Upload> {
    if (sessions.size >= uploadsMax) await makeRoom();
    const session = createUploadSession(repository, createUploadFile(blobs, algorithm), now());
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

  function lookUp(repository: string, id: string): UploadSession {
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
    await inTurn(session, now, (turn) => work(own(session, turn)));
  }

  function own(session: UploadSession, turn: Turn): OwnUpload {
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
  async function orDrop(session: UploadSession, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (reason) {
      await drop(session);
      throw storageFailure(reason);
    }
  }

  async function drop(session: UploadSession): Promise<void> {
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
function show({ id, repository, file }: UploadSession): Upload {
  return {
    id,
    repository,
    get size() {
      return file.size;
    },
  };
}

function storageFailure(reason: unknown): unknown {
  const { code } = reason as NodeJS.ErrnoException;
  if (code !== "EMFILE" && code !== "ENFILE") return diskFailure(reason);
  // Over in a moment, so the client may retry; and not its fault, so the operator hears of it.
  const message = "the registry has too many files open";
  return new RegistryError("TOOMANYREQUESTS", message, { status: 503, cause: reason });
}
