// The hash of a file that is still growing. A thread reads the file behind whoever writes it, so that
// hashing, the larger part of what a push costs, keeps no connection waiting; and it is what lies in
// the file that is hashed, not what was meant to. The file is open only while it is read.

import { availableParallelism } from "node:os";
import { Worker } from "node:worker_threads";

export type Algorithm = "sha256" | "sha512";

export interface FileHash {
  /** The file has this many bytes by now. */
  reached(size: number): void;
  /** Of that many bytes, in hex. Afterwards, as after `drop`, there is no hash any more. */
  digest(size: number): Promise<string>;
  drop(): void;
}

type Request = { readonly id: number } & (
  | { readonly kind: "open"; readonly file: string; readonly algorithm: Algorithm }
  | { readonly kind: "reached"; readonly size: number }
  | { readonly kind: "digest"; readonly size: number }
  | { readonly kind: "drop" }
);

type Answer = { readonly id: number } & (
  | { readonly digest: string }
  | { readonly failure: string; readonly code?: string | undefined }
);

interface Thread {
  readonly worker: Worker;
  readonly waiting: Map<number, PromiseWithResolvers<string>>;
  /** How many files it follows. */
  files: number;
  /** Why it can be asked nothing more. */
  over?: Error;
}

/** One processor is left for the connections. */
const THREADS_MAX = Math.min(Math.max(availableParallelism() - 1, 1), 4);

const threads = new Set<Thread>();
let lastId = 0;

/** The file has to be there by the time something is to be read. */
export function hashFile(file: string, algorithm: Algorithm): FileHash {
  const id = ++lastId;
  // One thread for all of a file: that is where its hash is.
  const thread = chooseThread();
  thread.files += 1;
  let isOpen = true;
  send(thread, { id, kind: "open", file, algorithm });
  return {
    reached: (size) => send(thread, { id, kind: "reached", size }),
    async digest(size) {
      if (!isOpen) throw new Error("this hash was asked for or dropped before");
      end();
      return ask(thread, { id, kind: "digest", size });
    },
    drop() {
      if (isOpen) send(thread, { id, kind: "drop" });
      end();
    },
  };

  function end(): void {
    if (isOpen) thread.files -= 1;
    isOpen = false;
  }
}

function send({ worker, over }: Thread, request: Request): void {
  // Whether it was heard shows when the digest is asked for.
  if (over === undefined) worker.postMessage(request);
}

function ask(thread: Thread, request: Request): Promise<string> {
  if (thread.over !== undefined) throw thread.over;
  const answered = Promise.withResolvers<string>();
  thread.waiting.set(request.id, answered);
  // It keeps a program alive only while somebody waits for it.
  thread.worker.ref();
  send(thread, request);
  return answered.promise;
}

function chooseThread(): Thread {
  const [idlest] = [...threads].sort((one, other) => one.files - other.files);
  const isEnough = idlest?.files === 0 || threads.size === THREADS_MAX;
  return idlest && isEnough ? idlest : startThread();
}

function startThread(): Thread {
  // As text, so that a program in one file needs no second one. `serve` leans on nothing outside itself.
  const worker = new Worker(`(${serve.toString()})()`, {
    eval: true,
    resourceLimits: { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 2 },
  });
  const thread: Thread = { worker, waiting: new Map(), files: 0 };
  threads.add(thread);
  worker.on("message", (answer: Answer) => {
    const waiting = thread.waiting.get(answer.id);
    thread.waiting.delete(answer.id);
    if (thread.waiting.size === 0) worker.unref();
    if ("digest" in answer) waiting?.resolve(answer.digest);
    else waiting?.reject(Object.assign(new Error(answer.failure), { code: answer.code }));
  });
  worker.on("error", (cause) => end(new Error("the thread that hashes uploads failed", { cause })));
  worker.on("exit", () => end(new Error("the thread that hashes uploads ended")));
  // Only now: whoever listens for messages makes a thread keep its program alive.
  worker.unref();
  return thread;

  function end(reason: Error): void {
    threads.delete(thread);
    thread.over ??= reason;
    for (const { reject } of thread.waiting.values()) reject(reason);
    thread.waiting.clear();
  }
}

/** Runs in the thread. */
function serve(): void {
  const { createHash } = process.getBuiltinModule("node:crypto");
  const { closeSync, openSync, readSync } = process.getBuiltinModule("node:fs");
  const { parentPort } = process.getBuiltinModule("node:worker_threads");
  interface Followed {
    readonly id: number;
    readonly path: string;
    readonly hash: ReturnType<typeof createHash>;
    at: number;
    goal: number;
    isAsked: boolean;
    /** Kept until somebody asks for the digest. */
    failure?: NodeJS.ErrnoException;
  }
  const files = new Map<number, Followed>();
  /** Those with something to do, each once, the first of them next. */
  const queue = new Set<Followed>();
  const buffer = Buffer.allocUnsafeSlow(256 * 1024);
  /** Then the next file has its turn: a small one does not wait until a large one is done. */
  const turnBytes = 8 * 1024 * 1024;

  parentPort?.on("message", (request: Request) => {
    const { id, kind } = request;
    if (kind === "open") {
      const hash = createHash(request.algorithm);
      files.set(id, { id, path: request.file, hash, at: 0, goal: 0, isAsked: false });
      return;
    }
    const file = files.get(id);
    if (!file) return;
    if (kind === "drop") {
      files.delete(id);
      return;
    }
    file.goal = Math.max(file.goal, request.size);
    file.isAsked = kind === "digest";
    if (queue.size === 0) setImmediate(work);
    queue.add(file);
  });

  function work(): void {
    const [file] = queue;
    if (!file) return;
    queue.delete(file);
    // Unless it was dropped in the meantime.
    if (files.has(file.id)) advance(file);
    if (queue.size > 0) setImmediate(work);
  }

  function advance(file: Followed): void {
    try {
      if (!file.failure && file.at < file.goal) readOn(file);
    } catch (reason) {
      file.failure = reason as NodeJS.ErrnoException;
    }
    if (!file.failure && file.at < file.goal) queue.add(file);
    else if (file.isAsked) answer(file);
  }

  function answer({ id, failure, hash }: Followed): void {
    files.delete(id);
    const message: Answer = failure
      ? { id, failure: failure.message, code: failure.code }
      : { id, digest: hash.digest("hex") };
    parentPort?.postMessage(message);
  }

  function readOn(file: Followed): void {
    const end = Math.min(file.goal, file.at + turnBytes);
    const fd = openSync(file.path, "r");
    try {
      while (file.at < end) {
        const length = readSync(fd, buffer, 0, Math.min(buffer.length, end - file.at), file.at);
        if (length === 0) throw new Error(`the file ends at ${file.at}, before ${file.goal}`);
        file.hash.update(buffer.subarray(0, length));
        file.at += length;
      }
    } finally {
      closeSync(fd);
    }
  }
}
