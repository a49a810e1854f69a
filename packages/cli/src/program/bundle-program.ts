// The program that writes releases to files and takes them in again, and what it says meanwhile.

import { FAILURE_CODES, Failure } from "@exclave/core";
import { z } from "zod";
import type { Cli } from "./cli.ts";
import { plainEnvironment, programOf, runProgram } from "./package-program.ts";
import { CliProblem } from "./problem.ts";

const Line = z.discriminatedUnion("type", [
  z.object({
    type: z.literal("progress"),
    message: z.string(),
    done: z.number(),
    total: z.number(),
  }),
  z.looseObject({ type: z.literal("result") }),
  z.object({ type: z.literal("failure"), code: z.enum(FAILURE_CODES), message: z.string() }),
]);
export type BundleProgress = Extract<z.infer<typeof Line>, { type: "progress" }>;

/** What a bundle holds, as the program says it. */
export const BundledRelease = z.object({
  app: z.string(),
  version: z.string(),
  id: z.string(),
  digest: z.string(),
  materials: z.array(z.object({ name: z.string(), repository: z.string(), digest: z.string() })),
});
export type BundledRelease = z.infer<typeof BundledRelease>;

export interface BundleProgramOptions<Result extends z.ZodType> {
  readonly args: readonly string[];
  /** Secrets go here and never into arguments, which everyone on the machine sees. */
  readonly secrets?: Readonly<Record<string, string>>;
  readonly result: Result;
  readonly describe: (progress: BundleProgress) => string;
}

/** Runs it, shows how it goes, and answers with its result; its failures are thrown as ours. */
export async function runBundleProgram<Result extends z.ZodType>(
  cli: Cli,
  { args, secrets = {}, result, describe }: BundleProgramOptions<Result>,
): Promise<z.output<Result>> {
  const display = cli.display();
  let last: z.infer<typeof Line> | undefined;
  const code = await runProgram(cli.invocation, {
    program: programOf("@exclave/oci", "programs/release-bundle-main"),
    args,
    environment: { ...plainEnvironment(cli.invocation.environment), ...secrets },
    onLine: (text) => {
      last = readLine(text) ?? last;
      if (last?.type === "progress") display.update([describe(last)]);
    },
  });
  display.end({ clear: true });
  cli.invocation.signal.throwIfAborted();
  if (last?.type === "failure") throw new Failure(last.code, last.message);
  if (last?.type === "result") return result.parse(last);
  throw new CliProblem("bug", `the program for bundles ended with ${code} and without a word`);
}

function readLine(text: string): z.infer<typeof Line> | undefined {
  try {
    return Line.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}

export function sizeText(bytes: number): string {
  return bytes < 1e6 ? `${(bytes / 1e3).toFixed(1)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}
