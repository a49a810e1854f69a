// A figure is a number beside what it is measured against, in the same run on the same machine.

export interface Figure {
  readonly figure: string;
  readonly value: number;
  readonly unit: string;
  /** What the value came from: seconds, peers, goal. */
  readonly beside: Readonly<Record<string, unknown>>;
}

export interface Bench {
  readonly name: string;
  /** `size` is what was written behind the name: how much of it; the bench's own measure unless given. */
  run(directory: string, size?: number): AsyncIterable<Figure>;
}

export function printFigure(figure: Figure): void {
  process.stdout.write(`${JSON.stringify(figure)}\n`);
}

/** Something that is worth knowing and is not a figure. */
export function say(line: string): void {
  process.stderr.write(`${line}\n`);
}

export function round(value: number, digits = 2): number {
  return Number(value.toFixed(digits));
}

export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
}
