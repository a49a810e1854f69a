// Durable files without waiting, for a step during which nothing else may happen.

import { randomUUID } from "node:crypto";
import {
  closeSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  writeSync,
} from "node:fs";
import { dirname, join } from "node:path";

/** Replaced as a whole, its owner's alone. */
export function writeDurablySync(path: string, content: string | Uint8Array): void {
  withDraft(path, content, (draft) => renameSync(draft, path));
}

/** Writes it unless it is there; false if it is. Of two at the same time only one succeeds. */
export function createDurablySync(path: string, content: string | Uint8Array): boolean {
  try {
    // A link, not a rename: it fails when the name is taken, and the file is whole when it appears.
    withDraft(path, content, (draft) => linkSync(draft, path));
    return true;
  } catch (reason) {
    if ((reason as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw reason;
  }
}

export function syncDirectorySync(path: string): void {
  withFile(path, "r", fsyncSync);
}

function withDraft(
  path: string,
  content: string | Uint8Array,
  place: (draft: string) => void,
): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const draft = join(dirname(path), `:${randomUUID()}`);
  const bytes = Buffer.from(content);
  try {
    withFile(draft, "wx", (file) => {
      for (let at = 0; at < bytes.length; ) at += writeSync(file, bytes, at);
      fsyncSync(file);
    });
    place(draft);
  } finally {
    rmSync(draft, { force: true });
  }
  syncDirectorySync(dirname(path));
}

function withFile(path: string, flags: string, work: (file: number) => void): void {
  const file = openSync(path, flags, 0o600);
  try {
    work(file);
  } finally {
    closeSync(file);
  }
}
