// Files that are written to again and again, kept open in between. So many at most: whoever was not used for the
// longest is closed first, and one that nobody used for a while is closed by itself.

import { type FileHandle, open } from "node:fs/promises";

export interface OpenFiles {
  /** Does that with the file, which stays open for as long as it takes. */
  use<Result>(path: string, work: (file: FileHandle) => Promise<Result>): Promise<Result>;
  /** Closes it as soon as nobody uses it. */
  forget(path: string): Promise<void>;
  /** How many are open. */
  count(): number;
}

export interface OpenFilesOptions {
  readonly flags: number;
  readonly filesMax?: number;
  readonly idleMs?: number;
}

interface Opened {
  readonly file: Promise<FileHandle>;
  users: number;
  closing: NodeJS.Timeout | undefined;
}

const FILES_MAX = 256;
const IDLE_MS = 5_000;
const MODE = 0o600;

export function createOpenFiles(options: OpenFilesOptions): OpenFiles {
  const { flags, filesMax = FILES_MAX, idleMs = IDLE_MS } = options;
  /** Used last, last. */
  const files = new Map<string, Opened>();

  return { use, forget, count: () => files.size };

  async function use<Result>(
    path: string,
    work: (file: FileHandle) => Promise<Result>,
  ): Promise<Result> {
    const opened = files.get(path) ?? {
      file: open(path, flags, MODE),
      users: 0,
      closing: undefined,
    };
    files.delete(path);
    files.set(path, opened);
    clearTimeout(opened.closing);
    opened.users++;
    try {
      return await work(await opened.file);
    } catch (reason) {
      // Whoever comes next opens it anew: it may have been the file that failed.
      void drop(path, opened);
      throw reason;
    } finally {
      opened.users--;
      if (opened.users === 0) rest(path, opened);
    }
  }

  function rest(path: string, opened: Opened): void {
    if (files.get(path) !== opened) return void close(opened);
    opened.closing = setTimeout(() => void drop(path, opened), idleMs).unref();
    for (const [oldest, other] of files) {
      if (files.size <= filesMax) break;
      if (other.users === 0) void drop(oldest, other);
    }
  }

  async function forget(path: string): Promise<void> {
    const opened = files.get(path);
    if (opened) await drop(path, opened);
  }

  async function drop(path: string, opened: Opened): Promise<void> {
    if (files.get(path) === opened) files.delete(path);
    if (opened.users === 0) await close(opened);
  }
}

async function close({ file, closing }: Opened): Promise<void> {
  clearTimeout(closing);
  await (await file.catch(() => undefined))?.close();
}
