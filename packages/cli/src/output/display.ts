// What is happening right now, on stderr. On a terminal one block that is redrawn in place; anywhere
// else each line once, when it first becomes true.

import { displayWidth, withoutColour } from "./output.ts";

export interface Display {
  /** Replaces what is shown as going on. */
  update(lines: readonly string[]): void;
  /** A line that stays. */
  note(line: string): void;
  /** Leaves the last state standing (or clears it) and stops redrawing. */
  end(options?: { readonly clear?: boolean }): void;
}

export interface DisplayOptions {
  readonly write: (text: string) => void;
  /** Makes a line fit to be shown where this display is. */
  readonly clean?: (line: string) => string;
  readonly isLive: boolean;
  readonly isQuiet?: boolean;
  readonly columns?: () => number;
  readonly rows?: () => number;
}

export function createDisplay(options: DisplayOptions): Display {
  if (options.isQuiet) return { update() {}, note() {}, end() {} };
  const { clean = (line) => line } = options;
  const display = options.isLive ? liveDisplay(options) : plainDisplay(options);
  return {
    update: (lines) => display.update(lines.map(clean)),
    note: (line) => display.note(clean(line)),
    end: (options) => display.end(options),
  };
}

function plainDisplay({ write }: DisplayOptions): Display {
  let shown = new Set<string>();
  return {
    update(lines) {
      for (const line of lines) if (!shown.has(line) && line.trim() !== "") write(`${line}\n`);
      shown = new Set(lines);
    },
    note: (line) => write(`${line}\n`),
    end() {},
  };
}

function liveDisplay({ write, columns = () => 80, rows = () => 24 }: DisplayOptions): Display {
  let drawn = 0;
  let current: readonly string[] = [];

  return { update, note, end };

  function update(lines: readonly string[]): void {
    if (lines.length === current.length && lines.every((line, i) => line === current[i])) return;
    current = lines;
    redraw();
  }

  function note(line: string): void {
    erase();
    write(`${line}\n`);
    redraw();
  }

  function end({ clear = false }: { readonly clear?: boolean } = {}): void {
    if (clear) erase();
    drawn = 0;
    current = [];
  }

  function redraw(): void {
    erase();
    // A block taller than the screen could not be taken back line by line.
    const fitting = current.slice(0, Math.max(1, rows() - 2));
    write(fitting.map((line) => `${cut(line, columns() - 1)}\n`).join(""));
    drawn = fitting.length;
  }

  function erase(): void {
    if (drawn > 0) write(`\u001B[${drawn}A\u001B[0J`);
    drawn = 0;
  }
}

function cut(line: string, width: number): string {
  if (displayWidth(line) <= width) return line;
  // Without its colours: a cut could fall inside one, or before the code that ends it.
  return `${Array.from(withoutColour(line))
    .slice(0, width - 1)
    .join("")}…`;
}
