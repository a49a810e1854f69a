// What `logs` and `exec` are asked for, the same for every plugin that offers them.

import { Failure } from "@exclave/core";
import { z } from "zod";

const LogsParameters = z.object({
  /** How many lines back from the end to begin; 0 is only what comes from now on. */
  tailLines: z.int().nonnegative().default(200),
  follow: z.boolean().default(false),
});
export type LogsParameters = z.infer<typeof LogsParameters>;

const ExecParameters = z.object({
  command: z.array(z.string()).min(1),
  timeoutSeconds: z.int().positive().default(60),
});
export type ExecParameters = z.infer<typeof ExecParameters>;

export function logsParameters(parameters: Readonly<Record<string, unknown>>): LogsParameters {
  return LogsParameters.parse(parameters);
}

export function execParameters(parameters: Readonly<Record<string, unknown>>): ExecParameters {
  const parsed = ExecParameters.safeParse(parameters);
  if (!parsed.success) throw new Failure("invalid", "exec needs a command to run");
  return parsed.data;
}

/** The last lines of a text, as `logs` shows them. */
export function lastLines(text: string, count: number): string[] {
  const lines = text.trimEnd().split("\n");
  return lines.slice(Math.max(0, lines.length - count)).filter((line) => line !== "");
}
