// Randomness from one seed, so that every run can be had again.

export interface Dice {
  /** In [0, 1). */
  roll(): number;
  /** A whole number in [0, below). */
  below(below: number): number;
  chance(probability: number): boolean;
  pick<Value>(values: readonly Value[]): Value | undefined;
}

/** mulberry32: small, fast, and good enough to find trouble. */
export function createDice(seed: number): Dice {
  let state = seed >>> 0;
  const roll = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  return {
    roll,
    below: (below) => Math.floor(roll() * below),
    chance: (probability) => roll() < probability,
    pick: (values) => values[Math.floor(roll() * values.length)],
  };
}
