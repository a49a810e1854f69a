// A signer at the other end of a stream. A stream that ends is opened again, with backoff; what was
// asked meanwhile waits, but not for ever.

import type { Readable, Writable } from "node:stream";
import { asFailure, Failure, fromBase64, toBase64 } from "@exclave/core";
import type { Signer } from "./signer.ts";
import { readLines, SignerAnswer, type SignerRequest } from "./signer-wire.ts";

export interface SignerStream {
  readonly input: Writable;
  readonly output: Readable;
  /** Settles when the other end is gone, with why. */
  readonly closed: Promise<string>;
  close(): void;
}

export interface SignerClientOptions {
  /** What it is called in failures, such as `the signer at /run/signer.sock`. */
  readonly name: string;
  readonly open: () => Promise<SignerStream>;
  readonly log: { warn(details: object, message: string): void };
  /** How long a request waits for an answer, restarts included. */
  readonly patienceMs?: number;
  readonly backoffMs?: { readonly first: number; readonly most: number };
}

type Asked = SignerRequest extends infer One
  ? One extends unknown
    ? Omit<One, "id">
    : never
  : never;
interface Waiting {
  readonly resolve: (answer: SignerAnswer) => void;
  readonly reject: (reason: Error) => void;
}

const PATIENCE_MS = 15_000;
const BACKOFF_MS = { first: 100, most: 5_000 };
const GOOD_RUN_MS = 10_000;

/** The stream ended before the answer came. */
class Gone extends Error {}

export function createSignerClient(options: SignerClientOptions): Signer {
  const { name, log } = options;
  const backoffMs = options.backoffMs ?? BACKOFF_MS;
  const stopping = new AbortController();
  let stream: SignerStream | undefined;
  let opened = Promise.withResolvers<SignerStream>();
  let lastReason = "it has not been started yet";
  let nextId = 1;
  const waiting = new Map<number, Waiting>();
  const kept = keepOpen();

  return {
    keys: async () => (await ask({ do: "keys" })).keys ?? [],
    async sign({ role, keyid, payloadType, payload }) {
      const answer = await ask({
        do: "sign",
        role,
        keyid,
        payloadType,
        payload: toBase64(payload),
      });
      return must(fromBase64(must(answer.signature)));
    },
    // Asked once: a key that was made and never told of is of no harm, but need not be made twice.
    make: async (role) => must((await ask({ do: "make", role }, 1)).key),
    async forget(role, keyid) {
      await ask({ do: "forget", role, keyid });
    },
    exportRoot: async (keyid) => must((await ask({ do: "export", role: "root", keyid })).pem),
    async close() {
      stopping.abort();
      stream?.close();
      await kept;
    },
  };

  async function keepOpen(): Promise<void> {
    let waitMs = backoffMs.first;
    while (!stopping.signal.aborted) {
      const startedAt = Date.now();
      try {
        await use(await options.open());
      } catch (reason) {
        lastReason = asFailure(reason).message;
      }
      if (stopping.signal.aborted) return;
      log.warn({ reason: lastReason }, `${name} is gone; it is opened again`);
      if (Date.now() - startedAt > GOOD_RUN_MS) waitMs = backoffMs.first;
      await pause(waitMs);
      waitMs = Math.min(waitMs * 2, backoffMs.most);
    }
  }

  async function use(current: SignerStream): Promise<void> {
    if (stopping.signal.aborted) return current.close();
    current.input.on("error", () => current.close());
    stream = current;
    lastReason = "it is silent";
    opened.resolve(current);
    try {
      await Promise.race([read(current), current.closed.then((reason) => (lastReason = reason))]);
    } finally {
      current.close();
      lastReason = await current.closed;
      stream = undefined;
      opened = Promise.withResolvers();
      for (const { reject } of waiting.values()) reject(new Gone());
      waiting.clear();
    }
  }

  async function read({ output }: SignerStream): Promise<void> {
    for await (const line of readLines(output)) {
      const answer = SignerAnswer.parse(JSON.parse(line));
      waiting.get(answer.id)?.resolve(answer);
      waiting.delete(answer.id);
    }
  }

  async function ask(request: Asked, triesMax = Infinity): Promise<SignerAnswer> {
    const impatience = AbortSignal.timeout(options.patienceMs ?? PATIENCE_MS);
    for (let tries = 1; ; tries++) {
      try {
        const answer = await within(impatience, () => askOnce(request));
        if (answer.error) throw new Failure(answer.error.code, answer.error.message);
        return answer;
      } catch (reason) {
        if (!(reason instanceof Gone)) throw reason;
        if (tries >= triesMax || stopping.signal.aborted) throw unavailable();
      }
    }
  }

  async function askOnce(request: Asked): Promise<SignerAnswer> {
    const { input } = stream ?? (await opened.promise);
    const id = nextId++;
    const { promise, resolve, reject } = Promise.withResolvers<SignerAnswer>();
    waiting.set(id, { resolve, reject });
    input.write(`${JSON.stringify({ id, ...request })}\n`);
    return promise;
  }

  async function within<Value>(signal: AbortSignal, work: () => Promise<Value>): Promise<Value> {
    const over = Promise.withResolvers<never>();
    const stop = () => over.reject(unavailable());
    for (const end of [signal, stopping.signal]) end.addEventListener("abort", stop);
    try {
      if (signal.aborted || stopping.signal.aborted) throw unavailable();
      return await Promise.race([work(), over.promise]);
    } finally {
      for (const end of [signal, stopping.signal]) end.removeEventListener("abort", stop);
    }
  }

  function unavailable(): Failure {
    const because = stopping.signal.aborted ? "this server is stopping" : lastReason;
    return new Failure("unavailable", `${name} does not answer (${because}); nothing is signed`);
  }

  function pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      stopping.signal.addEventListener("abort", () => {
        clearTimeout(timer);
        resolve();
      });
    });
  }

  function must<Value>(value: Value | undefined): Value {
    if (value !== undefined) return value;
    throw new Failure("invalid", `${name} gave an answer to something else`);
  }
}
