// Threads that write uploads to their files and hash them on the way. That is nine tenths of the work of
// a push (measured), so there are as many as there are processors, up to four, and the main thread is
// left to the connections. Chunks are handed over, not copied: they are gone here afterwards.

import { availableParallelism } from "node:os";
import { Worker } from "node:worker_threads";

export interface ThreadFile {
  /** Writes at that place and adds to the hash. The batch may not be looked at again. */
  write(batch: Buffer[], at: number): Promise<void>;
  /** The hash of all that was written, in hex; only once. */
  digest(): Promise<string>;
  /** Forgets the hash, once nothing is being written any more. The file is its owner's to close. */
  drop(): Promise<void>;
}

type Request = { readonly call: number; readonly file: number } & (
  | { readonly kind: "open"; readonly algorithm: string; readonly fd: number }
  | { readonly kind: "write"; readonly at: number; readonly chunks: ArrayBuffer[] }
  | { readonly kind: "digest" }
  | { readonly kind: "drop" }
);

interface Answer {
  readonly call: number;
  readonly digest?: string;
  readonly failure?: { readonly message: string; readonly code?: string };
}

interface Thread {
  readonly worker: Worker;
  readonly waiting: Map<number, PromiseWithResolvers<Answer>>;
  /** How many files are open there. */
  files: number;
  /** Why it can be asked nothing more. */
  over?: unknown;
}

const THREADS_MAX = Math.min(4, availableParallelism());
const threads = new Set<Thread>();
let lastCall = 0;
let lastFile = 0;

/** Starts one more thread if there is room: whoever opens an upload will soon have bytes for it. */
export function expectBytes(): void {
  if (threads.size < THREADS_MAX) startThread().worker.unref();
}

export function openThreadFile(algorithm: string, fd: number): ThreadFile {
  const file = ++lastFile;
  // One thread for the life of the file: the hash is there.
  const mine = idlestThread();
  mine.files += 1;
  // If this fails, so does whatever is asked next, and that has somebody who waits for it.
  ask(mine, { call: ++lastCall, file, kind: "open", algorithm, fd }).catch(() => undefined);
  return {
    async write(batch, at) {
      const chunks = batch.map(ownMemory);
      await ask(mine, { call: ++lastCall, file, kind: "write", at, chunks }, chunks);
    },
    async digest() {
      return (await ask(mine, { call: ++lastCall, file, kind: "digest" })).digest ?? "";
    },
    async drop() {
      mine.files -= 1;
      await ask(mine, { call: ++lastCall, file, kind: "drop" }).catch(() => undefined);
    },
  };
}

async function ask(
  { worker, waiting, over }: Thread,
  request: Request,
  transfer: readonly ArrayBuffer[] = [],
): Promise<Answer> {
  if (over !== undefined) throw over;
  const answered = Promise.withResolvers<Answer>();
  waiting.set(request.call, answered);
  worker.ref();
  worker.postMessage(request, transfer);
  const answer = await answered.promise;
  if (!answer.failure) return answer;
  const { message, code } = answer.failure;
  throw Object.assign(new Error(message), code === undefined ? {} : { code });
}

/** The chunk's memory if it is the chunk's alone, as it mostly is; otherwise a copy. */
function ownMemory(chunk: Buffer): ArrayBuffer {
  const { buffer, byteLength } = chunk;
  if (buffer instanceof ArrayBuffer && buffer.byteLength === byteLength) return buffer;
  return new Uint8Array(chunk).buffer;
}

function idlestThread(): Thread {
  const [idlest] = [...threads].sort((one, other) => one.files - other.files);
  const isEnough = idlest?.files === 0 || threads.size === THREADS_MAX;
  return idlest && isEnough ? idlest : startThread();
}

function startThread(): Thread {
  // As text, so that a bundle needs no second file. `serve` leans on nothing outside itself.
  const worker = new Worker(`(${serve.toString()})()`, { eval: true });
  const waiting: Thread["waiting"] = new Map();
  const made: Thread = { worker, waiting, files: 0 };
  threads.add(made);
  worker.on("message", (answer: Answer) => {
    waiting.get(answer.call)?.resolve(answer);
    waiting.delete(answer.call);
    // It keeps a program alive only while somebody waits for it.
    if (waiting.size === 0) worker.unref();
  });
  worker.on("error", (reason) => end(reason));
  worker.on("exit", () => end(new Error("the thread that writes uploads ended")));
  return made;

  function end(reason: unknown): void {
    threads.delete(made);
    made.over ??= reason;
    for (const { reject } of waiting.values()) reject(reason);
    waiting.clear();
  }
}

/** Runs in the thread. */
function serve(): void {
  const { createHash } = process.getBuiltinModule("node:crypto");
  const { writevSync } = process.getBuiltinModule("node:fs");
  const { parentPort } = process.getBuiltinModule("node:worker_threads");
  type Open = { readonly fd: number; readonly hash: ReturnType<typeof createHash> };
  const files = new Map<number, Open>();

  parentPort?.on("message", (request: Request) => {
    try {
      parentPort.postMessage({ call: request.call, ...handle(request) } satisfies Answer);
    } catch (reason) {
      const { message, code } = reason as NodeJS.ErrnoException;
      const failure = { message, ...(code === undefined ? {} : { code }) };
      parentPort.postMessage({ call: request.call, failure } satisfies Answer);
    }
  });

  function handle(request: Request): { readonly digest?: string } {
    if (request.kind === "open") {
      files.set(request.file, { fd: request.fd, hash: createHash(request.algorithm) });
      return {};
    }
    const open = files.get(request.file);
    if (request.kind === "drop") {
      files.delete(request.file);
      return {};
    }
    if (!open) throw new Error("that file is not open here");
    if (request.kind === "write") {
      write(open, request.chunks, request.at);
      return {};
    }
    files.delete(request.file);
    return { digest: open.hash.digest("hex") };
  }

  function write({ fd, hash }: Open, chunks: ArrayBuffer[], at: number): void {
    let rest = chunks.map((chunk) => new Uint8Array(chunk));
    for (const chunk of rest) hash.update(chunk);
    for (let place = at; rest.length > 0; ) {
      let written = writevSync(fd, rest, place);
      place += written;
      // A short write, as before a full disk: what is left goes again, and fails if it must.
      rest = rest.flatMap((chunk) => {
        const done = Math.min(written, chunk.length);
        written -= done;
        return done === chunk.length ? [] : [chunk.subarray(done)];
      });
    }
    // Freed now rather than at the next collection.
    for (const chunk of chunks) chunk.transfer(0);
  }
}
