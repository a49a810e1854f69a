// What the schema finds wrong, in words for whoever wrote the file.

import type { z } from "zod";
import { LimitsDeclaration } from "../manifest/job-limits.ts";
import { suggest } from "../suggest.ts";
import {
  AppDeclaration,
  InputDeclaration,
  PluginDeclaration,
  SandboxChoice,
  SecretDeclaration,
} from "./app-config.ts";
import type { Finding, Path } from "./problem.ts";

export function shapeProblems(error: z.ZodError, value: unknown): Finding[] {
  return error.issues.flatMap((issue) => findingsOf(issue, value));
}

function findingsOf(issue: z.core.$ZodIssue, value: unknown): Finding[] {
  const path = issue.path.map((step) => (typeof step === "symbol" ? String(step) : step));
  switch (issue.code) {
    case "unrecognized_keys":
      return issue.keys.map((key) => {
        const message = `there is no key \`${key}\` here`;
        const hint = suggest(key, knownKeys(path));
        return hint ? { path, key, message, hint } : { path, key, message };
      });
    case "invalid_type":
      return [wrongType(path, issue.expected, value)];
    case "invalid_value":
      return [{ path, message: `must be one of ${issue.values.map(String).join(", ")}` }];
    case "invalid_union":
      return [{ path, message: "must be a string, a number or a boolean" }];
    case "too_small":
      return [{ path, message: tooSmall(issue.origin, Number(issue.minimum)) }];
    case "too_big":
      return [{ path, message: `must be at most ${issue.maximum}` }];
    default:
      return [{ path, message: issue.message }];
  }
}

const WORDS: Record<string, string> = {
  array: "a list",
  object: "a mapping",
  record: "a mapping",
  int: "a whole number",
};

function wrongType(path: Path, expected: string, value: unknown): Finding {
  const last = path.at(-1);
  if (valueAt(value, path) === undefined && typeof last === "string") {
    return { path: path.slice(0, -1), message: `\`${last}\` is missing` };
  }
  return { path, message: `must be ${WORDS[expected] ?? `a ${expected}`}` };
}

function tooSmall(origin: string, minimum: number): string {
  if (origin === "array") return minimum === 1 ? "must not be empty" : `must have ${minimum} items`;
  if (origin === "string") return "must not be empty";
  return `must be at least ${minimum}`;
}

/** The keys of the mapping at a path of exclave.yaml. */
function knownKeys([first, second, third]: Path): string[] {
  switch (first) {
    case undefined:
      return Object.keys(AppDeclaration.shape);
    case "sandbox":
      return second === undefined ? Object.keys(SandboxChoice.shape) : [];
    case "inputs":
      return Object.keys(InputDeclaration.shape);
    case "secrets":
      return third === "generate" ? ["bytes", "encoding"] : Object.keys(SecretDeclaration.shape);
    case "plugins":
      return Object.keys(PluginDeclaration.shape);
    case "components":
      return third === "limits" ? Object.keys(LimitsDeclaration.shape) : [];
    default:
      return [];
  }
}

function valueAt(value: unknown, path: Path): unknown {
  let current = value;
  for (const step of path) {
    if (typeof current !== "object" || current === null) return undefined;
    current = (current as Record<string | number, unknown>)[step];
  }
  return current;
}
