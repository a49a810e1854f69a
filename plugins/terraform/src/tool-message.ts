// What tofu and terraform say with `-json`: one object a line. Parsed into the few things we act on;
// a line of another shape is shown as it is.

import { z } from "@exclave/plugin-sdk";

const Diagnostic = z.object({
  severity: z.string(),
  summary: z.string(),
  detail: z.string().default(""),
  range: z.object({ filename: z.string(), start: z.object({ line: z.int() }) }).optional(),
});
type Diagnostic = z.infer<typeof Diagnostic>;

const UiLine = z.object({
  "@message": z.string(),
  "@level": z.string().default("info"),
  type: z.string().optional(),
  hook: z
    .object({
      resource: z.object({ addr: z.string(), resource_type: z.string() }),
      action: z.string().optional(),
      id_value: z.string().optional(),
    })
    .optional(),
  diagnostic: Diagnostic.optional(),
});

export const ValidateReport = z.object({
  valid: z.boolean(),
  diagnostics: z.array(Diagnostic).default([]),
});

export interface ToolMessage {
  readonly text: string;
  readonly level: "info" | "warn" | "error";
  readonly done?: {
    readonly action: "created" | "changed" | "destroyed";
    readonly kind: string;
    readonly name: string;
    /** What the provider calls it, where it has such a name. */
    readonly id?: string;
  };
  readonly error?: string;
}

const ACTIONS = { create: "created", update: "changed", delete: "destroyed" } as const;
type Action = keyof typeof ACTIONS;

export function readToolLine(line: string): ToolMessage {
  const parsed = parseJson(line);
  const read = UiLine.safeParse(parsed);
  if (!read.success) return { text: line, level: "info" };

  const { "@message": text, "@level": level, type, hook, diagnostic } = read.data;
  const failed = diagnostic?.severity === "error" ? describeDiagnostic(diagnostic) : undefined;
  const done = type === "apply_complete" && hook ? completed(hook) : undefined;
  return {
    text: failed ? `Error: ${failed}` : text,
    level: level === "error" || level === "warn" ? level : "info",
    ...(done && { done }),
    ...(failed && { error: failed }),
  };
}

export function describeDiagnostic({ summary, detail, range }: Diagnostic): string {
  const where = range ? ` (${range.filename}:${range.start.line})` : "";
  const more = unwrap(detail);
  return `${summary}${where}${more ? `: ${more}` : ""}`;
}

/** Text for a terminal is wrapped and framed; a sentence is one line. */
export function unwrap(text: string): string {
  return text.replaceAll(/[│╷╵]/g, " ").replaceAll(/\s+/g, " ").trim();
}

function completed(hook: NonNullable<z.infer<typeof UiLine>["hook"]>): ToolMessage["done"] {
  const { action, resource, id_value: id } = hook;
  if (action === undefined || !(action in ACTIONS)) return undefined;
  return {
    action: ACTIONS[action as Action],
    kind: resource.resource_type,
    name: resource.addr,
    ...(id !== undefined && { id }),
  };
}

function parseJson(line: string): unknown {
  if (!line.startsWith("{")) return undefined;
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}
