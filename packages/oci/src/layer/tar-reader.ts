// Reads a tar archive as it streams by. What a header means is decided in core; what of it is safe to
// put on a disk is decided where it is unpacked.

import { createTarHeaders, Failure, paddingOf, type TarHeader } from "@exclave/core";

export interface ReadTarEntry extends TarHeader {
  /** The file's bytes; what is not read before the next entry is passed over. */
  readonly content: AsyncIterable<Uint8Array>;
}

const BLOCK = 512;
/** Padding behind the end is at most one record of a tape; a stream that goes on and on is none. */
const TRAILER_BYTES_MAX = 16 * 1024 * 1024;

export async function* readTar(source: AsyncIterable<Uint8Array>): AsyncIterable<ReadTarEntry> {
  const reader = createBlockReader(source);
  const headers = createTarHeaders();
  try {
    for (;;) {
      const head = await reader.take(BLOCK);
      if (head === undefined) break;
      const block = headers.read(head);
      if (block.kind === "end") break;
      if (block.kind === "extension") {
        headers.extend(await reader.takeWhole(block.size));
        continue;
      }
      reader.begin(block.header.size);
      yield { ...block.header, content: reader.body() };
      await reader.skip();
    }
    // What follows the end is padding; reading it lets the source come to its own end.
    await reader.drain();
  } finally {
    await reader.close();
  }
}

function createBlockReader(source: AsyncIterable<Uint8Array>) {
  const chunks = source[Symbol.asyncIterator]();
  let held: Uint8Array = new Uint8Array();
  let left = 0;
  let pad = 0;

  /** At most `max` bytes of what comes next; undefined at the end. */
  async function some(max: number): Promise<Uint8Array | undefined> {
    while (held.length === 0) {
      const next = await chunks.next();
      if (next.done) return undefined;
      held = next.value;
    }
    const part = held.subarray(0, max);
    held = held.subarray(part.length);
    return part;
  }

  async function take(size: number): Promise<Buffer | undefined> {
    const parts: Uint8Array[] = [];
    let missing = size;
    while (missing > 0) {
      const part = await some(missing);
      if (part === undefined && parts.length === 0) return undefined;
      if (part === undefined) throw cut();
      parts.push(part);
      missing -= part.length;
    }
    return Buffer.concat(parts);
  }

  async function* body(): AsyncIterable<Uint8Array> {
    while (left > 0) {
      const part = await some(left);
      if (part === undefined) throw cut();
      left -= part.length;
      yield part;
    }
  }

  return {
    take,
    body,
    /** So many bytes and the padding behind them. */
    async takeWhole(size: number): Promise<Uint8Array> {
      const bytes = await take(size);
      const padding = await take(paddingOf(size));
      if (bytes === undefined || padding === undefined) throw cut();
      return bytes;
    },
    begin(size: number): void {
      left = size;
      pad = paddingOf(size);
    },
    async skip(): Promise<void> {
      for await (const _ of body());
      if (pad > 0) await take(pad);
    },
    async drain(): Promise<void> {
      for (let passed = 0; ; ) {
        const part = await some(Number.MAX_SAFE_INTEGER);
        if (part === undefined) return;
        passed += part.length;
        if (passed > TRAILER_BYTES_MAX) {
          throw new Failure("too_large", "the archive does not end where it says");
        }
      }
    },
    async close(): Promise<void> {
      await chunks.return?.();
    },
  };
}

function cut(): Failure {
  return new Failure("invalid", "the archive ends in the middle");
}
