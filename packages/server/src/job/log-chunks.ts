// A log in pieces that are never changed: each is named by where it begins and ends. Pieces may overlap, because a server
// that was thought dead wrote once more, or because several were merged into one and a crash came before the old ones were
// removed. Bytes at an offset are the same in all of them, so that any way from 0 on without a gap is the log.

export interface LogChunk {
  readonly start: number;
  /** Where the next one begins; with what was left out. */
  readonly end: number;
  /** How much of it is kept. */
  readonly keptBytes: number;
}

const DIGITS = 15;

export function chunkName({ start, end }: Pick<LogChunk, "start" | "end">): string {
  return `${String(start).padStart(DIGITS, "0")}-${String(end).padStart(DIGITS, "0")}`;
}

export function parseChunk(name: string, keptBytes: number): LogChunk | undefined {
  const found = /^(\d{15})-(\d{15})$/.exec(name);
  const [start, end] = [Number(found?.[1]), Number(found?.[2])];
  return found && end > start ? { start, end, keptBytes } : undefined;
}

/** The pieces to read one after the other; each reaches as far as any that begins in time. */
export function coverOf(chunks: readonly LogChunk[]): LogChunk[] {
  const sorted = [...chunks].sort((one, other) => one.start - other.start);
  const cover: LogChunk[] = [];
  let end = 0;
  for (let at = 0; at < sorted.length; ) {
    let best: LogChunk | undefined;
    for (let next = sorted[at]; next && next.start <= end; next = sorted[++at]) {
      if (next.end > (best?.end ?? end)) best = next;
    }
    // A gap: what lies behind it does not count.
    if (!best) break;
    cover.push(best);
    end = best.end;
  }
  return cover;
}

export function sizeOf(cover: readonly LogChunk[]): number {
  return cover.at(-1)?.end ?? 0;
}

/** So many pieces become one, where none of them is most of it: a byte is written again a few times at most. */
const MERGED = 32;
/** Sizes within this factor are about one size. */
const SIZE_CLASS = 16;

/**
 * Which pieces at the end of a log to make one of; none where they are few. The smallest kind goes first, so that a large
 * piece is not written again for the sake of small ones behind it.
 */
export function planMerge(cover: readonly LogChunk[]): readonly LogChunk[] {
  const classes = cover.map(({ keptBytes }) => classOf(keptBytes));
  for (let kind = 0; kind <= Math.max(0, ...classes); kind++) {
    const chosen = cover.slice(classes.findLastIndex((one) => one > kind) + 1);
    const sizes = chosen.map(({ keptBytes }) => keptBytes);
    const total = sizes.reduce((sum, size) => sum + size, 0);
    if (chosen.length >= MERGED && total >= 2 * Math.max(...sizes)) return chosen;
  }
  return [];
}

function classOf(bytes: number): number {
  return Math.max(0, Math.floor(Math.log(bytes + 1) / Math.log(SIZE_CLASS)));
}
