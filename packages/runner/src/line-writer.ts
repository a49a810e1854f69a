// What the job says, one JSON object a line. No line leaves here with a secret in it.

import { createRedactor, type JobLine } from "@exclave/core";

export interface LineWriterOptions {
  readonly secrets: readonly string[];
  /** Takes one whole line, its end included. */
  readonly out: (line: string) => void;
}

export function createLineWriter({ secrets, out }: LineWriterOptions): (line: JobLine) => void {
  const clean = createRedactor(secrets);

  return (line) => {
    const text = JSON.stringify(line);
    if (line.type === "output") {
      // Other components need the value as it is, so an output with a secret in it is not cut: it is
      // sensitive whatever the plugin said, and a sensitive output does not leave the install.
      const sensitive = line.sensitive || clean(text) !== text;
      out(`${JSON.stringify({ ...line, sensitive })}\n`);
      return;
    }
    out(`${clean(text)}\n`);
  };
}
