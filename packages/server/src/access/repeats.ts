// What is refused can come a thousand times a second; the record must not grow with it. The first of
// its kind goes on record at once, the others of the same minute as one row with their number.

import type { AuditEntry } from "@exclave/core";

export type RepeatedEntry = Omit<AuditEntry, "at">;

export interface Repeats {
  /**
   * True for the first of its kind in this window: it is the caller's to put on record. Others are
   * counted. What counts as one kind is actor, action, subject and the code in its details.
   */
  isFirst(entry: RepeatedEntry, options?: RepeatOptions): boolean;
  /** The rows of windows that are over, and these windows are forgotten. `all`: also those that are not. */
  due(options?: { readonly all?: boolean }): readonly RepeatedEntry[];
}

export interface RepeatOptions {
  /** A minute unless given. */
  readonly windowMs?: number;
}

/**
 * For the work of a transaction, which may run again: what was the first of its kind when the work ran before is
 * still the first. `begin` is called whenever it runs.
 */
export function rememberFirsts(
  repeats: Pick<Repeats, "isFirst">,
): Pick<Repeats, "isFirst"> & { begin(): void } {
  const answers = new Map<string, boolean>();
  let asked = new Map<string, number>();
  return {
    begin() {
      asked = new Map();
    },
    isFirst(entry, options) {
      const kind = keyOf(entry);
      const times = (asked.get(kind) ?? 0) + 1;
      asked.set(kind, times);
      const key = `${times} ${kind}`;
      const answer = answers.get(key) ?? repeats.isFirst(entry, options);
      answers.set(key, answer);
      return answer;
    },
  };
}

interface Kind {
  readonly entry: RepeatedEntry;
  readonly since: number;
  readonly windowMs: number;
  count: number;
  lastAt: number;
}

export const REPEAT_WINDOW_MS = 60_000;
/** Kinds at once. A peer that invents ever new ones is counted as one kind per action above this. */
export const REPEAT_KINDS_MAX = 256;

export function createRepeats({
  now,
  windowMs = REPEAT_WINDOW_MS,
  kindsMax = REPEAT_KINDS_MAX,
}: {
  readonly now: () => number;
  readonly windowMs?: number;
  readonly kindsMax?: number;
}): Repeats {
  const kinds = new Map<string, Kind>();

  return {
    isFirst(entry, { windowMs: span = windowMs } = {}) {
      const own = keyOf(entry);
      const isKnown = kinds.has(own) || kinds.size < kindsMax;
      const counted = isKnown
        ? entry
        : { ...entry, actor: "several", subject: "several", details: {} };
      const key = isKnown ? own : keyOf(counted);
      const kind = kinds.get(key);
      if (kind) {
        kind.count++;
        kind.lastAt = now();
        return false;
      }
      const count = isKnown ? 0 : 1;
      kinds.set(key, { entry: counted, since: now(), windowMs: span, count, lastAt: now() });
      return isKnown;
    },
    due({ all = false } = {}) {
      const rows: RepeatedEntry[] = [];
      for (const [key, { entry, since, windowMs: span, count, lastAt }] of kinds) {
        if (!all && now() - since < span) continue;
        kinds.delete(key);
        if (count === 0) continue;
        rows.push({ ...entry, details: { ...entry.details, more: count, since, lastAt } });
      }
      return rows;
    },
  };
}

function keyOf({ actor, action, subject, details }: RepeatedEntry): string {
  return JSON.stringify([action, actor, subject, details["code"] ?? null]);
}
