// The clock of a program, which tests may set wrong: a real clock cannot be, without the machine's.

/** Names a directory with one file per program, whose text is by how many milliseconds its clock is wrong. */
export const TEST_CLOCK_VARIABLE = "EXCLAVE_TEST_CLOCK";

export interface ClockOptions {
  readonly machine: () => number;
  /** Where the variable points; undefined everywhere but in tests. */
  readonly directory: string | undefined;
  /** Which file there is this program's. */
  readonly program: string;
  readonly readFile: (path: string) => string;
}

const READ_EVERY_MS = 100;

export function createClock(options: ClockOptions): () => number {
  const { machine, directory } = options;
  if (directory === undefined) return machine;
  let readAt = Number.NEGATIVE_INFINITY;
  let offsetMs = 0;
  return () => {
    const now = machine();
    if (Math.abs(now - readAt) >= READ_EVERY_MS) {
      readAt = now;
      offsetMs = readOffset(directory, options);
    }
    return now + offsetMs;
  };
}

function readOffset(directory: string, { program, readFile }: ClockOptions): number {
  try {
    const text = readFile(`${directory}/${program}`).trim();
    return /^-?\d{1,12}$/.test(text) ? Number(text) : 0;
  } catch {
    // Nobody has set it wrong.
    return 0;
  }
}
