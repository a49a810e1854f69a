// A stream to a signer that is kept open. One that ends is opened again, with backoff; what was asked meanwhile waits,
// but not for ever.

import type { Readable, Writable } from "node:stream";
import { asFailure, Failure } from "@exclave/core";
import { readLines, SignerAnswer, type SignerRequest } from "./signer-wire.ts";

export interface SignerStream {
  readonly input: Writable;
  readonly output: Readable;
  /** Settles when the other end is gone, with why. */
  readonly closed: Promise<string>;
  close(): void;
}

export interface SignerConnectionOptions {
  /** What it is called in failures, such as `the signer at /run/signer.sock`. */
  readonly name: string;
  readonly open: () => Promise<SignerStream>;
  readonly log: { warn(details: object, message: string): void };
  /** How long a request waits for an answer, restarts included. */
  readonly patienceMs?: number;
  readonly backoffMs?: { readonly first: number; readonly most: number };
}

export type Asked = SignerRequest extends infer One
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

export interface SignerConnection {
  /** Asks again after a stream that ended, at most that many times in all. */
  ask(request: Asked, triesMax?: number): Promise<SignerAnswer>;
  close(): Promise<void>;
}

export function createSignerConnection(options: SignerConnectionOptions): SignerConnection {
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
    ask,
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
      await pause(waitMs, stopping.signal);
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
        const answer = await within(
          [impatience, stopping.signal],
          () => askOnce(request),
          unavailable,
        );
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

  function unavailable(): Failure {
    const because = stopping.signal.aborted ? "this server is stopping" : lastReason;
    return new Failure("unavailable", `${name} does not answer (${because}); nothing is signed`);
  }
}

/** Fails with `failure` as soon as one of the signals fires. */
async function within<Value>(
  signals: readonly AbortSignal[],
  work: () => Promise<Value>,
  failure: () => Failure,
): Promise<Value> {
  const over = Promise.withResolvers<never>();
  const stop = () => over.reject(failure());
  for (const end of signals) end.addEventListener("abort", stop);
  try {
    if (signals.some(({ aborted }) => aborted)) throw failure();
    return await Promise.race([work(), over.promise]);
  } finally {
    for (const end of signals) end.removeEventListener("abort", stop);
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
