// What a job says, one JSON object a line on stdout. Anything that is not such a line is log text.

import { z } from "zod";
import { FAILURE_CODES } from "../failure.ts";
import { Digest } from "../ids.ts";

export const Health = z.enum(["healthy", "degraded", "missing", "unknown"]);
export type Health = z.infer<typeof Health>;

export const Risk = z.enum(["none", "change", "replace", "destroy"]);
export type Risk = z.infer<typeof Risk>;

export const LogLine = z.object({
  type: z.literal("log"),
  level: z.enum(["debug", "info", "warn", "error"]).default("info"),
  message: z.string(),
});
export const ProgressLine = z.object({
  type: z.literal("progress"),
  message: z.string(),
  done: z.number().optional(),
  total: z.number().optional(),
});
export const ResourceLine = z.object({
  type: z.literal("resource"),
  action: z.enum(["created", "changed", "destroyed", "read"]),
  kind: z.string(),
  name: z.string(),
});
export const OutputLine = z.object({
  type: z.literal("output"),
  name: z.string(),
  value: z.unknown(),
  /** Stays in the install: the agent keeps it for expressions and reports only that it exists. */
  sensitive: z.boolean().default(false),
});
/** A digest that now lies in a registry: what a build made, what a sync brought. */
export const ArtifactLine = z.object({
  type: z.literal("artifact"),
  name: z.string(),
  repository: z.string(),
  digest: Digest,
  sizeBytes: z.int().nonnegative().optional(),
  copiedBytes: z.int().nonnegative().optional(),
  durationMs: z.number().nonnegative().optional(),
});
/** The last line that counts. Its absence means the job was lost. */
export const ResultLine = z.object({
  type: z.literal("result"),
  ok: z.boolean(),
  failure: z.object({ code: z.enum(FAILURE_CODES), message: z.string() }).optional(),
  /** For status. */
  health: Health.optional(),
  because: z.string().optional(),
  drift: z.object({ found: z.boolean(), summary: z.string() }).optional(),
  /** For plan: what an apply of exactly this plan would do. */
  plan: z.object({ digest: Digest, risk: Risk, summary: z.string() }).optional(),
  /** For exec: how the command in the install ended. */
  exitCode: z.int().optional(),
});

export const JobLine = z.discriminatedUnion("type", [
  LogLine,
  ProgressLine,
  ResourceLine,
  OutputLine,
  ArtifactLine,
  ResultLine,
]);
export type JobLine = z.infer<typeof JobLine>;
export type ResultLine = z.infer<typeof ResultLine>;
export type ArtifactLine = z.infer<typeof ArtifactLine>;
export type OutputLine = z.infer<typeof OutputLine>;

/** Reads one line of a job's stdout; undefined is plain text, to be shown as it is. */
export function parseJobLine(line: string): JobLine | undefined {
  if (!line.startsWith("{")) return undefined;
  try {
    return JobLine.safeParse(JSON.parse(line)).data;
  } catch {
    return undefined;
  }
}
