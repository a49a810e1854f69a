// Rows that this process wrote or has checked before, by what they are in the database. A row that is read and is the
// same text needs neither parsing nor checking; one that somebody else changed is another text, and is checked.

export interface RowCache {
  /** What that text was read as before, or what was written as it. */
  get(key: string, body: string): unknown;
  /** What was kept last, for whoever keeps every write and knows that nobody else writes. */
  latest(key: string): unknown;
  /** The row is frozen: many hold it from now on. */
  keep(key: string, body: string, row: unknown): void;
  drop(key: string): void;
  clear(): void;
}

interface Kept {
  readonly body: string;
  readonly row: unknown;
}

/** Of texts; as values they take a few times as much. */
const CHARACTERS_MAX = 16 * 1024 * 1024;

export function createRowCache(charactersMax = CHARACTERS_MAX): RowCache {
  const rows = new Map<string, Kept>();
  let characters = 0;

  return {
    get(key, body) {
      const kept = rows.get(key);
      return kept?.body === body ? used(key, kept) : undefined;
    },
    latest(key) {
      const kept = rows.get(key);
      return kept && used(key, kept);
    },
    keep(key, body, row) {
      drop(key);
      rows.set(key, { body, row: frozen(row) });
      characters += body.length;
      for (const oldest of rows.keys()) {
        if (characters <= charactersMax) break;
        drop(oldest);
      }
    },
    drop,
    clear() {
      rows.clear();
      characters = 0;
    },
  };

  /** Used last, dropped last. */
  function used(key: string, kept: Kept): unknown {
    rows.delete(key);
    rows.set(key, kept);
    return kept.row;
  }

  function drop(key: string): void {
    const kept = rows.get(key);
    if (!kept) return;
    rows.delete(key);
    characters -= kept.body.length;
  }
}

/** Parts that are frozen were frozen with all they hold: rows are made of earlier ones. */
function frozen<Value>(value: Value): Value {
  if (typeof value !== "object" || value === null || Object.isFrozen(value)) return value;
  for (const part of Object.values(value)) frozen(part);
  return Object.freeze(value);
}
