// One upload under way, and the request that is at it.

import { randomUUID } from "node:crypto";
import type { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import type { UploadFile } from "./upload-file.ts";

export interface UploadSession {
  readonly id: string;
  readonly repository: string;
  readonly file: UploadFile;
  turn?: Turn | undefined;
  usedAt: number;
}

/** A request that is at an upload. */
export interface Turn {
  readonly done: Promise<void>;
  body?: Readable;
  /** Whether it waits for bytes, and not for the disk. */
  isListening: boolean;
}

const LOOK_MS = 250;
/** A request that brings nothing from one look to the next, and the next, stands still. */
const STILL_LOOKS = 2;
const LOOKS_MAX = 12;

export function createUploadSession(
  repository: string,
  file: UploadFile,
  usedAt: number,
): UploadSession {
  return { id: randomUUID(), repository, file, usedAt };
}

/** Has the upload to itself, as long as `work` takes. */
export async function inTurn(
  session: UploadSession,
  now: () => number,
  work: (turn: Turn) => Promise<void>,
): Promise<void> {
  const { promise: done, resolve } = Promise.withResolvers<void>();
  const turn: Turn = { done, isListening: false };
  session.turn = turn;
  try {
    await work(turn);
  } finally {
    session.file.rest();
    session.turn = undefined;
    session.usedAt = now();
    resolve();
  }
}

/** A request that has all its bytes goes on to its end, and is waited for. Another may have its turn by then. */
export async function cutOff({ body, done }: Turn): Promise<void> {
  body?.destroy();
  await done;
}

/**
 * A connection that broke may leave megabytes in the system's hands, and its end shows only behind
 * them. So whoever asks how far the upload is waits until the request at it has ended or stands
 * still. One that goes on and on is alive, and the answer is how far it is by now.
 */
export async function settle(session: UploadSession): Promise<void> {
  let still = 0;
  for (let look = 0; session.turn && look < LOOKS_MAX && still < STILL_LOOKS; look++) {
    const { size } = session.file;
    await Promise.race([session.turn.done, sleep(LOOK_MS, undefined, { ref: false })]);
    still = session.turn?.isListening && session.file.size === size ? still + 1 : 0;
  }
}
