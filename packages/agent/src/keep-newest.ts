// A set that a peer can make grow, kept to a number: what came first goes first.

export function keepNewest<T>(names: Set<T>, max: number): void {
  for (const oldest of names) {
    if (names.size <= max) return;
    names.delete(oldest);
  }
}
