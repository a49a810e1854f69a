// What the operating system said no to, as a sentence: which file, what is wrong with it, what to do. Errors
// of files are the customer's or the operator's to end, never a bug of ours.

import type { FailureCode } from "./failure.ts";

export interface SystemError {
  readonly code: string;
  readonly path?: string | undefined;
  readonly syscall?: string | undefined;
}

export interface SystemFailure {
  readonly code: FailureCode;
  readonly message: string;
}

// biome-ignore format: a table reads as a table.
const MEANINGS: Readonly<Record<string, { readonly code: FailureCode; readonly because: string; readonly remedy: string }>> = {
  EROFS:        { code: "conflict",    because: "the file system is read-only",      remedy: "use a directory that can be written" },
  EACCES:       { code: "conflict",    because: "permission is denied",              remedy: "change its owner or mode, or use another directory" },
  EPERM:        { code: "conflict",    because: "the operation is not permitted",    remedy: "change its owner or mode, or use another directory" },
  ENOSPC:       { code: "disk_full",   because: "there is no room left on the disk", remedy: "free some" },
  EDQUOT:       { code: "disk_full",   because: "the disk quota is used up",         remedy: "free some, or raise it" },
  EMFILE:       { code: "unavailable", because: "too many files are open",           remedy: "raise the limit (`ulimit -n`)" },
  ENFILE:       { code: "unavailable", because: "the machine has too many files open", remedy: "raise its limit" },
  ENAMETOOLONG: { code: "conflict",    because: "the path is too long",              remedy: "use a shorter directory" },
  ENOTDIR:      { code: "conflict",    because: "a part of the path is no directory", remedy: "remove it, or use another directory" },
  ELOOP:        { code: "conflict",    because: "its links lead in a circle",        remedy: "use another directory" },
  EIO:          { code: "unavailable", because: "the disk answers with an error",    remedy: "check the disk" },
};

/** The sentence for an error of the file system; undefined for everything else. */
export function systemFailure(reason: unknown): SystemFailure | undefined {
  if (!isSystemError(reason)) return undefined;
  const meaning = MEANINGS[reason.code];
  if (!meaning) return undefined;
  const { code, because, remedy } = meaning;
  const what = reason.path === undefined ? "a file" : shortened(reason.path);
  return { code, message: `${what} cannot be ${verbOf(reason)}: ${because}; ${remedy}` };
}

function isSystemError(reason: unknown): reason is SystemError {
  if (typeof reason !== "object" || reason === null || !("code" in reason)) return false;
  return typeof reason.code === "string" && "syscall" in reason;
}

function verbOf({ syscall }: SystemError): string {
  const READS = ["scandir", "stat", "lstat", "read", "readlink", "access", "statfs"];
  if (syscall === undefined) return "used";
  if (syscall === "open") return "opened";
  if (syscall.startsWith("spawn")) return "started";
  return READS.includes(syscall) ? "read" : "written";
}

function shortened(path: string): string {
  return path.length <= 200 ? path : `${path.slice(0, 100)}…${path.slice(-60)}`;
}
