// What befalls one connection, decided from a seed: how it is slowed, and how it ends before its time.

export interface Fate {
  /** Of every piece, in each direction. */
  readonly latencyMs: number;
  readonly jitterMs: number;
  /** Pieces are no larger than this: a frame arrives in many. */
  readonly sliceBytes: number;
  readonly bytesPerSecond: number;
  /** Between one side's end and the other's knowing of it. */
  readonly closeDelayMs: number;
  readonly end: End;
}

export type End =
  | { readonly kind: "none" }
  /** Both sides see a close; what was on its way is lost. */
  | { readonly kind: "cut"; readonly afterMs: number }
  /** Both sides see a reset. */
  | { readonly kind: "reset"; readonly afterMs: number }
  /** Nothing passes any more and nobody is told; it is cut only much later, unless a side gives up before. */
  | { readonly kind: "blackhole"; readonly afterMs: number; readonly forMs: number };

export type Dice = () => number;

/** Mulberry32: the same faults for the same seed. */
export function createDice(seed: number): Dice {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

export const WELL: Fate = {
  latencyMs: 0,
  jitterMs: 0,
  sliceBytes: Infinity,
  bytesPerSecond: Infinity,
  closeDelayMs: 0,
  end: { kind: "none" },
};

export interface FateOptions {
  /** How long a connection lives at most before it ends badly. */
  readonly lifeMsMax: number;
  /** How long one is half-open at most. */
  readonly blackholeMsMax: number;
}

/** One in ten is left alone; the others are slowed in some of the ways, and most end badly. */
export function rollFate(dice: Dice, { lifeMsMax, blackholeMsMax }: FateOptions): Fate {
  const isSo = (chance: number) => dice() < chance;
  const between = (least: number, most: number) => Math.round(least + dice() * (most - least));
  if (isSo(0.1)) return WELL;
  return {
    latencyMs: isSo(0.5) ? between(1, 80) : 0,
    jitterMs: isSo(0.4) ? between(1, 60) : 0,
    sliceBytes: isSo(0.3) ? between(1, 1_500) : Infinity,
    bytesPerSecond: isSo(0.3) ? between(50_000, 2_000_000) : Infinity,
    closeDelayMs: isSo(0.3) ? between(50, 2_000) : 0,
    end: rollEnd(),
  };

  function rollEnd(): End {
    const kind = dice();
    const afterMs = between(200, lifeMsMax);
    if (kind < 0.4) return { kind: "cut", afterMs };
    if (kind < 0.6) return { kind: "reset", afterMs };
    if (kind < 0.85) return { kind: "blackhole", afterMs, forMs: between(500, blackholeMsMax) };
    return { kind: "none" };
  }
}
