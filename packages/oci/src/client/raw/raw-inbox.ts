// Where what a socket read waits for its taker.

const PIECE_BYTES = 256 * 1024;
const PIECES_WAITING_MAX = 2;

/** Where a connection puts what arrives until it is taken. */
export interface Inbox {
  /** Forgets what an earlier answer left. */
  begin(): void;
  /** How long the body is that bytes now belong to. */
  expect(length: number): void;
  /** False when nothing more should come for now. */
  push(chunk: Uint8Array): boolean;
  isReady(): boolean;
  take(): Uint8Array | undefined;
  release(chunk: Uint8Array): void;
}

/** A plain socket stops when it is told to, so its own buffer can be handed on as it is. */
export function createPlainInbox(): Inbox {
  let waiting: Uint8Array | undefined;
  return {
    begin() {
      waiting = undefined;
    },
    expect: () => undefined,
    push(chunk) {
      if (chunk.length > 0) waiting = chunk;
      return false;
    },
    isReady: () => waiting !== undefined,
    take() {
      const chunk = waiting;
      waiting = undefined;
      return chunk;
    },
    release: () => undefined,
  };
}

/**
 * A TLS socket goes on with the records it has decrypted already, into the same buffer, so bytes are
 * moved out at once: 16 KiB records into pieces large enough to be worth a write.
 */
export function createPieces(): Inbox {
  const full: Uint8Array[] = [];
  const free: Buffer[] = [];
  let filling: Buffer | undefined;
  let filled = 0;
  let arrived = 0;
  let expected: number | undefined;

  return {
    begin() {
      full.length = 0;
      filled = 0;
      arrived = 0;
      expected = undefined;
    },
    expect(length) {
      expected = length;
    },
    push(chunk) {
      arrived += chunk.length;
      for (let at = 0; at < chunk.length; ) {
        filling ??= free.pop() ?? Buffer.allocUnsafeSlow(PIECE_BYTES);
        const count = Math.min(chunk.length - at, PIECE_BYTES - filled);
        filling.set(chunk.subarray(at, at + count), filled);
        at += count;
        filled += count;
        if (filled === PIECE_BYTES) close();
      }
      return full.length < PIECES_WAITING_MAX;
    },
    isReady: () => full.length > 0 || isLast(),
    take() {
      if (full.length === 0 && isLast()) close();
      return full.shift();
    },
    release(chunk) {
      free.push(Buffer.from(chunk.buffer as ArrayBuffer));
    },
  };

  function isLast(): boolean {
    return filled > 0 && expected !== undefined && arrived >= expected;
  }

  function close(): void {
    if (filling) full.push(filling.subarray(0, filled));
    filling = undefined;
    filled = 0;
  }
}
