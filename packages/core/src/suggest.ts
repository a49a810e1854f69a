// What somebody probably meant by a name that does not exist.

import { SUGGEST_LENGTH_MAX, SUGGEST_NAMES_MAX } from "./limits.ts";

/** Dashes and the like that one spelling of a name may have and another not. */
const PUNCTUATION_MAX = 8;

/** A sentence that helps, or nothing: a far-fetched guess is worse than none. */
export function suggest(word: string, known: Iterable<string>): string | undefined {
  const names = [...known];
  const close = closest(word, names);
  if (close !== undefined) return `did you mean \`${close}\`?`;
  if (names.length === 0 || names.length > 8) return undefined;
  if (names.some((name) => name.length > SUGGEST_LENGTH_MAX)) return undefined;
  return `there is ${names.map((name) => `\`${name}\``).join(", ")}`;
}

export function closest(word: string, known: Iterable<string>): string | undefined {
  if (word.length > SUGGEST_LENGTH_MAX) return undefined;
  const limit = Math.max(1, Math.floor(word.length / 3));
  let best: { name: string; distance: number } | undefined;
  let looked = 0;
  for (const name of known) {
    if (++looked > SUGGEST_NAMES_MAX) break;
    // As far apart as the lengths differ, at least: a long name is not worth its comparison.
    if (Math.abs(name.length - word.length) > limit + PUNCTUATION_MAX) continue;
    const distance = plainForm(word) === plainForm(name) ? 0 : editDistance(word, name);
    if (distance <= limit && distance < (best?.distance ?? Number.POSITIVE_INFINITY)) {
      best = { name, distance };
    }
  }
  return best?.name;
}

/** `depends_on`, `dependson` and `DependsOn` are one word to whoever types them. */
function plainForm(word: string): string {
  return word.toLowerCase().replaceAll(/[-_ ]/g, "");
}

/** Letters to add, drop, change or swap with their neighbour to get from one word to the other. */
export function editDistance(from: string, to: string): number {
  const rows = [Array.from({ length: to.length + 1 }, (_, column) => column)];
  for (let row = 1; row <= from.length; row++) {
    const current = [row];
    for (let column = 1; column <= to.length; column++) {
      const isSame = from[row - 1] === to[column - 1];
      const above = rows[row - 1] ?? [];
      const steps = [
        (above[column] ?? 0) + 1,
        (current[column - 1] ?? 0) + 1,
        (above[column - 1] ?? 0) + (isSame ? 0 : 1),
      ];
      const isSwap = from[row - 1] === to[column - 2] && from[row - 2] === to[column - 1];
      if (row > 1 && column > 1 && isSwap) steps.push((rows[row - 2]?.[column - 2] ?? 0) + 1);
      current.push(Math.min(...steps));
    }
    rows.push(current);
  }
  return rows[from.length]?.[to.length] ?? 0;
}
