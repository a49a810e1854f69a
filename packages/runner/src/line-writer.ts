// What the job says, one JSON object a line. No line leaves here with a secret in it, and no more log
// than the job may have; what is left out is said.

import {
  createLogBudget,
  createRedactor,
  cutText,
  type JobLine,
  LINE_BYTES_MAX,
  LOG_BYTES_MAX,
  leavesOf,
} from "@exclave/core";

export interface LineWriterOptions {
  readonly secrets: readonly string[];
  readonly logBytesMax?: number | undefined;
  /** Takes one whole line, its end included. */
  readonly out: (line: string) => void;
}

export function createLineWriter(options: LineWriterOptions): (line: JobLine) => void {
  const { secrets, out, logBytesMax = LOG_BYTES_MAX } = options;
  const clean = createRedactor(secrets);
  const log = createLogBudget(logBytesMax);

  return (line) => {
    switch (line.type) {
      case "output":
        return writeOutput(line);
      case "result": {
        const gap = log.gap();
        if (gap !== undefined) put({ type: "log", level: "warn", message: gap });
        return put(line);
      }
      case "artifact":
        return put(line);
      default: {
        const text = textOf(line);
        const kept = log.within(text, Buffer.byteLength(text) + 1);
        if (kept === text) out(`${text}\n`);
        else if (kept !== undefined) put({ type: "log", level: "warn", message: kept });
      }
    }
  };

  function put(line: JobLine): void {
    out(`${textOf(line)}\n`);
  }

  /** A line that nobody would read whole has its texts cut, after what is secret was taken out. */
  function textOf(line: JobLine): string {
    const text = clean(JSON.stringify(line));
    if (Buffer.byteLength(text) < LINE_BYTES_MAX) return text;
    return JSON.stringify(line, (_, value: unknown) =>
      typeof value === "string" ? cutText(clean(value)) : value,
    );
  }

  function writeOutput(line: Extract<JobLine, { type: "output" }>): void {
    const text = JSON.stringify(line);
    // Other components need the value as it is, so an output with a secret in it is not cut: it is
    // sensitive whatever the plugin said, and a sensitive output does not leave the install.
    const sensitive = line.sensitive || clean(text) !== text;
    if (sensitive) clean.add(leavesOf(line.value).values);
    out(`${JSON.stringify({ ...line, sensitive })}\n`);
  }
}
