// A request's body on its way to disk. Chunks come in the size a socket has them; they are handed on
// by the megabyte, and the next megabyte arrives while the last one is being written.

import type { Readable } from "node:stream";
import { RegistryError } from "./registry-error.ts";

const BATCH_BYTES = 1024 * 1024;

/**
 * Hands the whole body to `take`, batch by batch, one at a time. What arrived before a connection
 * broke is handed over as well, and then the break is thrown.
 */
export async function receiveBody(
  body: Readable,
  take: (batch: Buffer[]) => Promise<void>,
): Promise<void> {
  const failing = Promise.withResolvers<never>();
  let batch: Buffer[] = [];
  let size = 0;
  let taking: Promise<void> | undefined;

  const hand = () => {
    const full = batch;
    batch = [];
    size = 0;
    taking = take(full).then(() => {
      for (const chunk of full) release(chunk);
      taking = undefined;
      if (size >= BATCH_BYTES) hand();
      body.resume();
    }, failing.reject);
  };
  const onData = (chunk: Buffer) => {
    batch.push(chunk);
    size += chunk.length;
    if (size < BATCH_BYTES) return;
    if (taking) body.pause();
    else hand();
  };
  const rest = async () => {
    while (taking) await taking;
    if (batch.length > 0) await take(batch);
  };

  body.on("data", onData);
  try {
    await Promise.race([endOf(body), failing.promise]);
  } catch (reason) {
    body.off("data", onData);
    if (reason instanceof BrokenBody) await Promise.race([rest(), failing.promise]);
    throw reason;
  }
  body.off("data", onData);
  await Promise.race([rest(), failing.promise]);
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

function endOf(body: Readable): Promise<void> {
  return new Promise((resolve, reject) => {
    if (body.readableEnded) return resolve();
    if (body.destroyed) return reject(new BrokenBody());
    body.once("end", resolve);
    body.once("error", (cause) => reject(new BrokenBody(cause)));
    body.once("close", () => reject(new BrokenBody()));
  });
}
