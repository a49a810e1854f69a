// Content is what its digest says. Everything that lets bytes in checks them here, while they pass.

import { createHash, type Hash } from "node:crypto";
import { Digest, Failure } from "@exclave/core";

/** Bytes that can be read again from any offset, or an iterable that can be read once. */
export type ByteSource = AsyncIterable<Uint8Array> | ((from: number) => AsyncIterable<Uint8Array>);

export function digestOf(bytes: Uint8Array | string): Digest {
  return `sha256:${createHash("sha256").update(bytes).digest("hex")}` as Digest;
}

export function parseDigest(text: string): Digest {
  const digest = Digest.safeParse(text);
  if (!digest.success) throw new Failure("invalid", `${text} is not a digest`);
  return digest.data;
}

export function splitDigest(digest: Digest): { algorithm: "sha256" | "sha512"; hex: string } {
  const [algorithm, hex] = digest.split(":") as ["sha256" | "sha512", string];
  return { algorithm, hex };
}

export interface Expected {
  readonly digest: Digest;
  /** Unknown when absent: then only the digest decides. */
  readonly size?: number;
}

export interface Verifier {
  /** Takes bytes at their place. Bytes that were seen before a resume are not counted twice. */
  update(chunk: Uint8Array, at: number): void;
  /** Throws unless all that was seen is exactly what was expected. */
  finish(): void;
}

export function createVerifier(expected: Expected): Verifier {
  const { algorithm, hex } = splitDigest(expected.digest);
  const hash: Hash = createHash(algorithm);
  let seen = 0;

  return {
    update(chunk, at) {
      if (at > seen) throw new Failure("bug", `bytes ${seen} to ${at} were never seen`);
      const fresh = chunk.subarray(seen - at);
      if (fresh.length === 0) return;
      seen += fresh.length;
      if (expected.size !== undefined && seen > expected.size) {
        throw mismatch(expected, `more than ${expected.size} bytes arrived`);
      }
      hash.update(fresh);
    },
    finish() {
      if (expected.size !== undefined && seen !== expected.size) {
        throw mismatch(expected, `${seen} of ${expected.size} bytes arrived`);
      }
      const found = hash.digest("hex");
      if (found !== hex) throw mismatch(expected, `the bytes are ${algorithm}:${found}`);
    },
  };
}

/** Passes bytes on while checking them; ends with a failure instead of an end when they are wrong. */
export async function* verified(
  source: AsyncIterable<Uint8Array>,
  expected: Expected,
): AsyncIterable<Uint8Array> {
  const verifier = createVerifier(expected);
  let at = 0;
  for await (const chunk of source) {
    verifier.update(chunk, at);
    at += chunk.length;
    yield chunk;
  }
  verifier.finish();
}

export function openSource(source: ByteSource, from = 0): AsyncIterable<Uint8Array> {
  if (typeof source === "function") return source(from);
  if (from === 0) return source;
  throw new Failure("bug", "this source can be read only once");
}

/** All bytes at once, for things known to be small. */
export async function collect(
  source: AsyncIterable<Uint8Array>,
  bytesMax = 16 * 1024 * 1024,
): Promise<Uint8Array> {
  // Copied, not kept: a piece of one byte may hold on to all that its socket read at once.
  let held = Buffer.alloc(0);
  let size = 0;
  for await (const chunk of source) {
    if (size + chunk.length > bytesMax) {
      throw new Failure("too_large", `more than ${bytesMax} bytes arrived`);
    }
    if (size + chunk.length > held.length) {
      const grown = Buffer.alloc(Math.max(size + chunk.length, 2 * size));
      held.copy(grown, 0, 0, size);
      held = grown;
    }
    held.set(chunk, size);
    size += chunk.length;
  }
  return held.subarray(0, size);
}

export async function* bytesOf(bytes: Uint8Array): AsyncIterable<Uint8Array> {
  yield bytes;
}

/** Whether content is gone from a store, or is there and no longer what its digest says. */
export function isContentLost(reason: unknown): reason is Failure {
  if (!(reason instanceof Failure)) return false;
  return reason.code === "not_found" || reason.details["isMismatch"] === true;
}

function mismatch({ digest }: Expected, reason: string): Failure {
  return new Failure("invalid", `content does not match ${digest}: ${reason}`, {
    details: { digest, isMismatch: true },
  });
}

/** For what fits into memory. */
export function hasDigest(bytes: Uint8Array, digest: Digest): boolean {
  const { algorithm, hex } = splitDigest(digest);
  return createHash(algorithm).update(bytes).digest("hex") === hex;
}
