// A request's body on its way to disk. Chunks come in the size a socket has them; they are handed on
// by the megabyte, and the next megabyte arrives while the last one is being written. What comes
// slowly is not kept for long: how far an upload is shows in what was handed on.

import type { Readable } from "node:stream";
import { RegistryError } from "../registry-error.ts";

const BATCH_BYTES = 1024 * 1024;
/** A chunk of one byte takes half a kilobyte of memory. So many of them are made one. */
const JOINED_CHUNKS = 1024;
const HOLD_MS_MAX = 100;

/**
 * Hands the whole body to `take`, batch by batch, one at a time. What arrived before a connection
 * broke is handed over as well, and then the break is thrown.
 */
export async function receiveBody(
  body: Readable,
  take: (batch: Buffer[]) => Promise<void>,
): Promise<void> {
  const inbox = openInbox(body);
  try {
    for (let batch = await inbox.next(); batch.length > 0; batch = await inbox.next()) {
      await take(batch);
      for (const chunk of batch) release(chunk);
    }
  } finally {
    inbox.close();
  }
}

interface Inbox {
  /** A batch that is full or has waited long enough, or the last one, or none at the end. */
  next(): Promise<Buffer[]>;
  close(): void;
}

function openInbox(body: Readable): Inbox {
  let batch: Buffer[] = [];
  /** How many at the front of the batch were made of others. */
  let joined = 0;
  let size = 0;
  let isDue = false;
  let timer: NodeJS.Timeout | undefined;
  let end: "open" | "reached" | BrokenBody = "open";
  if (body.readableEnded) end = "reached";
  else if (body.destroyed) end = new BrokenBody();
  let wake = () => undefined as void;

  const onData = (chunk: Buffer) => {
    batch.push(chunk);
    if (batch.length - joined === JOINED_CHUNKS) batch.push(Buffer.concat(batch.splice(joined++)));
    size += chunk.length;
    timer ??= setTimeout(handOn, HOLD_MS_MAX);
    if (size < BATCH_BYTES) return;
    body.pause();
    handOn();
  };
  const handOn = () => {
    isDue = true;
    wake();
  };
  const finish = (how: "reached" | BrokenBody) => {
    if (end === "open") end = how;
    wake();
  };
  const onEnd = () => finish("reached");
  const onError = (cause: unknown) => finish(new BrokenBody(cause));
  const onClose = () => finish(new BrokenBody());
  body.on("data", onData).on("end", onEnd).on("error", onError).on("close", onClose);

  return { next, close };

  async function next(): Promise<Buffer[]> {
    if (!isDue && end === "open") {
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
    if (size === 0 && end instanceof BrokenBody) throw end;
    const full = batch;
    batch = [];
    joined = 0;
    size = 0;
    isDue = false;
    stopTimer();
    body.resume();
    return full;
  }

  function close(): void {
    stopTimer();
    body.off("data", onData).off("end", onEnd).off("close", onClose);
  }

  function stopTimer(): void {
    clearTimeout(timer);
    timer = undefined;
  }
}

/**
 * Frees a chunk's memory now rather than at the next collection: waiting for it makes the collector
 * run without end under a fast upload (measured: a fifth of the processor time).
 */
function release({ buffer, byteLength }: Buffer): void {
  if (buffer instanceof ArrayBuffer && buffer.byteLength === byteLength) buffer.transfer(0);
}

class BrokenBody extends RegistryError {
  constructor(cause?: unknown) {
    super("BLOB_UPLOAD_INVALID", "the connection ended before the body did", { cause });
  }
}
