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
  run(directory: string): AsyncIterable<Figure>;
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
