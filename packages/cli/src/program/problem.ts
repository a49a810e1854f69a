// Ending with a reason: one sentence, what to do about it, and the exit code that scripts see.

import { EXIT, type ExitCode, exitCodeOf, Failure, systemFailure } from "@exclave/core";
import { certificateProblem } from "@exclave/machine";
import { CommanderError } from "commander";
import { z } from "zod";

export interface ProblemOptions {
  readonly hint?: string;
  readonly cause?: unknown;
}

/** A reason to end that the command itself found. */
export class CliProblem extends Error {
  readonly exitCode: ExitCode;
  readonly hint: string | undefined;

  constructor(exit: keyof typeof EXIT, message: string, { hint, cause }: ProblemOptions = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = "CliProblem";
    this.exitCode = EXIT[exit];
    this.hint = hint;
  }
}

/** Ends with a code of somebody else's, such as that of a command run in an install. */
export class ExitWith extends Error {
  readonly exitCode: number;

  constructor(exitCode: number) {
    super(`exit ${exitCode}`);
    this.name = "ExitWith";
    this.exitCode = exitCode;
  }
}

export interface Ending {
  readonly exitCode: number;
  /** Empty where everything was said already. */
  readonly lines: readonly string[];
}

/** What any thrown thing means for the person at the keyboard. */
export function endingOf(reason: unknown): Ending {
  if (reason instanceof CliProblem) {
    return ending(reason.exitCode, reason.message, reason.hint);
  }
  if (reason instanceof Failure) {
    const hint = PLACES.safeParse(reason.details).success ? undefined : hintFor(reason);
    const { exitCode, lines } = ending(exitCodeOf(reason.code), reason.message, hint);
    return { exitCode, lines: [...placesOf(reason), ...lines] };
  }
  if (reason instanceof ExitWith) return { exitCode: reason.exitCode, lines: [] };
  if (reason instanceof CommanderError) {
    // Commander has written its own sentence by now; help and version are not errors.
    return { exitCode: reason.exitCode === 0 ? EXIT.ok : EXIT.usage, lines: [] };
  }
  if (isAbort(reason)) return { exitCode: EXIT.interrupted, lines: [] };
  if (reason instanceof z.ZodError) {
    const message = "the server's answer is not one this version understands";
    return ending(EXIT.bug, message, "compare `exclave version` with the server's version");
  }
  const system = systemFailure(reason);
  if (system) return ending(exitCodeOf(system.code), system.message);
  const message = reason instanceof Error ? (reason.stack ?? reason.message) : String(reason);
  return ending(EXIT.bug, message, "this is a bug in exclave; please report it");
}

export interface Place {
  readonly file: string;
  readonly line: number;
  readonly column: number;
  readonly message: string;
  readonly hint?: string | undefined;
}

/** As compilers write it, so that editors and terminals can jump there. */
export function placeText({ file, line, column, message, hint }: Place): string {
  return `${file}:${line}:${column}: ${message}${hint ? ` (${hint})` : ""}`;
}

const PLACES = z.object({
  problems: z.array(
    z.object({
      file: z.string(),
      line: z.number(),
      column: z.number(),
      message: z.string(),
      hint: z.string().optional(),
    }),
  ),
});

function placesOf({ details }: Failure): string[] {
  return PLACES.safeParse(details).data?.problems.map(placeText) ?? [];
}

function ending(exitCode: number, message: string, hint?: string): Ending {
  return { exitCode, lines: [`error: ${message}`, ...(hint ? [`  ${hint}`] : [])] };
}

function hintFor(failure: Failure): string | undefined {
  const { code, message } = failure;
  if (certificateProblem(failure) !== undefined) {
    return "add the server with `exclave context add NAME --server URL --ca-fingerprint sha256:…`; its log says the fingerprint at every start";
  }
  switch (code) {
    case "unavailable":
      return "start a server on this machine with `exclave up`, or name one with --server or --context";
    case "unauthenticated":
      return "check which token is used with `exclave context show`, or hand one in by --token-file or EXCLAVE_TOKEN";
    case "forbidden":
      return "ask for a token with a higher role: `exclave token create NAME --role operator`";
    case "not_found":
      return listHint(message);
    case "rate_limited":
      return "wait a moment and try again";
    default:
      return undefined;
  }
}

/** Where to look for what there is. */
function listHint(message: string): string | undefined {
  const noun = /\bno (install|job|agent|token|channel|release)\b/.exec(message)?.[1];
  if (noun === undefined) return undefined;
  return `\`exclave ${noun} list\` shows what there is`;
}

export function isAbort(reason: unknown): boolean {
  return reason instanceof Error && reason.name === "AbortError";
}

/** A value from the command line, by its schema, with a sentence when it does not fit. */
export function checked<Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
  what: string,
): z.output<Schema> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new CliProblem(
    "usage",
    `${JSON.stringify(value)} is no name of ${what}: it ${issue?.message ?? "does not fit"}`,
  );
}
