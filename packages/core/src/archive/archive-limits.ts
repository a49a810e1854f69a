// How much an archive may bring. Everybody who reads one (tar or zip, in memory or streamed) counts
// against the same figures, so that no format and no header leads around them.

import { Failure } from "../failure.ts";

export interface ArchiveLimits {
  /** Of what is written, not of what is read: a small archive can be a large tree. */
  readonly bytesMax: number;
  readonly entriesMax: number;
  /** Of one name, and of the place a link leads to. */
  readonly nameBytesMax: number;
  /** Of all names together: they are held in memory while links are checked. */
  readonly namesBytesMax: number;
  readonly depthMax: number;
}

export const ARCHIVE_LIMITS: ArchiveLimits = {
  bytesMax: 16 * 1024 ** 3,
  entriesMax: 500_000,
  nameBytesMax: 4_095,
  namesBytesMax: 64 * 1024 ** 2,
  depthMax: 128,
};

export interface ArchiveEntrySize {
  readonly path: string;
  readonly target?: string;
  readonly size: number;
}

export interface ArchiveBudget {
  /** Counts one entry; throws `too_large` when it is over a limit, `invalid` for a size that cannot be. */
  take(entry: ArchiveEntrySize): void;
}

/** One budget for all that is unpacked together: an image has many layers and one limit. */
export function createArchiveBudget(changed: Partial<ArchiveLimits> = {}): ArchiveBudget {
  const limits = { ...ARCHIVE_LIMITS, ...changed };
  let bytes = 0;
  let entries = 0;
  let namesBytes = 0;

  return { take };

  function take({ path, target = "", size }: ArchiveEntrySize): void {
    if (!isSize(size)) throw new Failure("invalid", "the archive has a size that cannot be");
    checkName(path, limits);
    checkName(target, limits);
    entries += 1;
    bytes += size;
    namesBytes += byteLength(path) + byteLength(target);
    if (bytes > limits.bytesMax) throw tooLarge(`unpacks to over ${limits.bytesMax} bytes`);
    if (entries > limits.entriesMax) throw tooLarge(`has over ${limits.entriesMax} entries`);
    if (namesBytes > limits.namesBytesMax) {
      throw tooLarge(`has over ${limits.namesBytesMax} bytes of names`);
    }
  }
}

/** Neither negative nor infinite nor NaN: any of them would compare as below every limit. */
export function isSize(size: number): boolean {
  return Number.isSafeInteger(size) && size >= 0;
}

function checkName(name: string, { nameBytesMax, depthMax }: ArchiveLimits): void {
  if (byteLength(name) > nameBytesMax) {
    throw tooLarge(`has a name of over ${nameBytesMax} bytes`);
  }
  if (name.split("/").length > depthMax) {
    throw tooLarge(`has an entry over ${depthMax} directories deep`);
  }
}

function byteLength(text: string): number {
  return new TextEncoder().encode(text).length;
}

function tooLarge(because: string): Failure {
  return new Failure("too_large", `the archive ${because}`);
}
