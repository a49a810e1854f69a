// Which way a release lies for an install that has seen another: forward, back as far as the newest
// release it has seen allows, or further back than that.

/** The highest release an install was ever directed to. */
export interface ReleaseFloor {
  readonly number: number;
  /** How far back that release lets the install go. */
  readonly numberMin: number;
}

export type Direction =
  | { readonly kind: "forward" }
  | { readonly kind: "rollback" }
  | { readonly kind: "refused"; readonly because: string };

export function directionTo(
  { number, versionName }: { readonly number: number; readonly versionName: string },
  floor: ReleaseFloor | undefined,
): Direction {
  if (!floor || number >= floor.number) return { kind: "forward" };
  if (number >= floor.numberMin) return { kind: "rollback" };
  const seen = `number ${floor.number}, which this install has seen`;
  const allowed =
    floor.numberMin === floor.number
      ? "and which allows no rollback"
      : `and which allows no rollback below number ${floor.numberMin}`;
  const because = `release ${versionName} (number ${number}) is older than ${seen} ${allowed}`;
  return { kind: "refused", because };
}
