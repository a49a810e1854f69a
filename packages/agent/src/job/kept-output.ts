// What jobs say, kept in the install as it comes, for runtimes that rotate output away. A file per
// attempt holds the raw bytes: a restarted agent reads those first and resumes the runtime from where
// they end, never from the first byte again. It may hold secrets and is readable by its owner alone.

import { type FileHandle, mkdir, open, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { JobName } from "@exclave/core";
import { readIfThere, writeDurably } from "@exclave/machine";
import { type JobRuntime, oldestOutput } from "@exclave/runtime";
import { z } from "zod";

export interface KeptOutputs {
  open(name: JobName): Promise<KeptOutputFile>;
  remove(name: JobName): Promise<void>;
}

export interface KeptOutputFile {
  /** The byte of the runtime's output that is kept next. */
  readonly next: number;
  /** What earlier lives kept. */
  read(): AsyncIterable<Uint8Array>;
  append(bytes: Uint8Array): Promise<void>;
  /** Bytes up to `oldest` are gone for good: says so where they would be. */
  skipTo(oldest: number): Promise<Uint8Array>;
  close(): Promise<void>;
}

export interface WholeOutputOptions {
  readonly runtime: Pick<JobRuntime, "output" | "capabilities">;
  readonly kept: KeptOutputs | undefined;
  readonly name: JobName;
  readonly signal: AbortSignal;
}

/** All the job says from its first byte on, also after a restart of the agent. */
export async function* wholeOutput(options: WholeOutputOptions): AsyncIterable<Uint8Array> {
  const { runtime, kept, name, signal } = options;
  if (runtime.capabilities.output === "kept" || !kept) {
    yield* runtime.output(name, 0, signal);
    return;
  }
  const file = await kept.open(name);
  try {
    yield* file.read();
    while (!signal.aborted) {
      try {
        for await (const chunk of runtime.output(name, file.next, signal)) {
          // Kept before it is used: what was read once may not be there a second time.
          await file.append(chunk);
          yield chunk;
        }
        return;
      } catch (reason) {
        const oldest = oldestOutput(reason);
        if (oldest === undefined) throw reason;
        yield await file.skipTo(oldest);
      }
    }
  } finally {
    await file.close();
  }
}

/** Undefined where the runtime keeps output itself. What belongs to no job of the runtime is swept. */
export async function openKeptOutputs(
  runtime: Pick<JobRuntime, "capabilities" | "list">,
  directory: string,
): Promise<KeptOutputs | undefined> {
  if (runtime.capabilities.output === "kept") return undefined;
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const there = new Set(await runtime.list());
  for (const file of await readdir(directory)) {
    const name = JobName.safeParse(file.replace(/\.(out|gap)$/, "")).data;
    if (name && !there.has(name)) await rm(join(directory, file), { force: true });
  }
  const path = (name: JobName, ending: "out" | "gap") => join(directory, `${name}.${ending}`);

  return {
    async open(name) {
      const file = await open(path(name, "out"), "a+", 0o600);
      return createFile(file, path(name, "gap"));
    },
    async remove(name) {
      for (const ending of ["out", "gap"] as const) await rm(path(name, ending), { force: true });
    },
  };
}

/** Where the last gap is: the kept byte at which it is told, and the runtime's byte that follows it. */
const Gap = z.object({ at: z.int(), from: z.int(), oldest: z.int() });
type Gap = z.infer<typeof Gap>;

const CHUNK_BYTES = 64 * 1024;

async function createFile(file: FileHandle, gapPath: string): Promise<KeptOutputFile> {
  let size = (await file.stat()).size;
  let gap = await readGap(gapPath);
  // Written down and not told yet: the crash was between the two.
  if (gap && size < gap.at + wordsOf(gap).length) {
    await file.truncate(gap.at);
    size = gap.at;
    await append(wordsOf(gap));
  }

  const next = () => (gap ? gap.oldest + size - (gap.at + wordsOf(gap).length) : size);

  return {
    get next() {
      return next();
    },
    async *read() {
      const end = size;
      for (let position = 0; position < end; ) {
        const bytes = Math.min(CHUNK_BYTES, end - position);
        const { bytesRead, buffer } = await file.read(Buffer.alloc(bytes), 0, bytes, position);
        if (bytesRead === 0) return;
        position += bytesRead;
        yield buffer.subarray(0, bytesRead);
      }
    },
    append,
    async skipTo(oldest) {
      gap = { at: size, from: next(), oldest };
      await writeDurably(gapPath, JSON.stringify(gap));
      await append(wordsOf(gap));
      return wordsOf(gap);
    },
    close: () => file.close(),
  };

  async function append(bytes: Uint8Array): Promise<void> {
    let rest = bytes;
    while (rest.length > 0) {
      const { bytesWritten } = await file.write(rest);
      rest = rest.subarray(bytesWritten);
      size += bytesWritten;
    }
  }
}

function wordsOf({ from, oldest }: Gap): Buffer {
  return Buffer.from(`\nexclave: bytes ${from} to ${oldest} of the output were rotated away\n`);
}

async function readGap(path: string): Promise<Gap | undefined> {
  const text = await readIfThere(path);
  return text === undefined ? undefined : Gap.parse(JSON.parse(text));
}
