// What somebody probably meant by a name that does not exist.

/** A sentence that helps, or nothing: a far-fetched guess is worse than none. */
export function suggest(word: string, known: Iterable<string>): string | undefined {
  const names = [...known];
  const close = closest(word, names);
  if (close !== undefined) return `did you mean \`${close}\`?`;
  if (names.length === 0 || names.length > 8) return undefined;
  return `there is ${names.map((name) => `\`${name}\``).join(", ")}`;
}

export function closest(word: string, known: Iterable<string>): string | undefined {
  const limit = Math.max(1, Math.floor(word.length / 3));
  let best: { name: string; distance: number } | undefined;
  for (const name of known) {
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
