// Turns a configuration with expressions into plain values. Runs in the install, where the outputs
// and secrets are; the result goes into the job document and nowhere else.

import { TypeError as CelTypeError, EvaluationError, ParseError } from "@marcbachmann/cel-js";
import { canonicalJson, type Json } from "../canonical.ts";
import { Failure } from "../failure.ts";
import { celEvaluator } from "./cel.ts";
import { type Expression, hasExpression, parseTemplate } from "./template.ts";

export interface Scope {
  readonly install: { readonly name: string; readonly [key: string]: unknown };
  readonly inputs: Readonly<Record<string, unknown>>;
  readonly secrets: Readonly<Record<string, string>>;
  readonly sandbox: Readonly<Record<string, unknown>>;
  readonly components: Readonly<
    Record<string, { readonly outputs: Readonly<Record<string, unknown>> }>
  >;
}

/** The configuration with every expression replaced by its value; throws `invalid` naming the place. */
export function evaluateConfig(
  config: Readonly<Record<string, unknown>>,
  scope: Scope,
): Record<string, unknown> {
  return evaluateMembers(config, scope, "");
}

/** One string: an expression alone keeps its type, one within text becomes text. */
export function evaluateTemplate(text: string, scope: Scope, place = "the expression"): unknown {
  if (!hasExpression(text)) return text;
  const { parts, problems } = parseTemplate(text);
  const [problem] = problems;
  if (problem) throw new Failure("invalid", `${place}: ${problem.message}`);

  const [only] = parts;
  if (parts.length === 1 && only !== undefined && typeof only !== "string") {
    return evaluateExpression(only, scope, place);
  }
  const texts = parts.map((part) =>
    typeof part === "string" ? part : asText(evaluateExpression(part, scope, place)),
  );
  return texts.join("");
}

function evaluateValue(value: unknown, scope: Scope, place: string): unknown {
  if (typeof value === "string") return evaluateTemplate(value, scope, place);
  if (Array.isArray(value)) {
    return value.map((item, index) => evaluateValue(item, scope, `${place}[${index}]`));
  }
  if (typeof value === "object" && value !== null) return evaluateMembers(value, scope, place);
  return value;
}

function evaluateMembers(members: object, scope: Scope, place: string): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(members).map(([key, member]) => [
      key,
      evaluateValue(member, scope, place ? `${place}.${key}` : key),
    ]),
  );
}

function evaluateExpression({ source }: Expression, scope: Scope, place: string): Json {
  try {
    return plain(celEvaluator.evaluate(source, scope));
  } catch (reason) {
    if (reason instanceof Failure) throw reason;
    if (!isCelError(reason)) throw reason;
    // The summary names keys and types, never values: it is fit for a log.
    const message = `${place}: \${{${source}}} has no value: ${reason.summary}`;
    throw new Failure("invalid", message, { cause: reason });
  }
}

function isCelError(reason: unknown): reason is EvaluationError | ParseError | CelTypeError {
  return (
    reason instanceof EvaluationError ||
    reason instanceof ParseError ||
    reason instanceof CelTypeError
  );
}

/** CEL's values as JSON's. What has no JSON form is a mistake in the expression. */
function plain(value: unknown): Json {
  switch (typeof value) {
    case "string":
    case "boolean":
    case "number":
      return value;
    case "bigint":
      if (!Number.isSafeInteger(Number(value)))
        throw new Failure("invalid", "a number is too large");
      return Number(value);
    case "object":
      if (value === null) return null;
      if (Array.isArray(value)) return value.map(plain);
      if (value instanceof Date) return value.toISOString();
      if (value instanceof Map) return plainMembers(value);
      if (Object.getPrototypeOf(value) === Object.prototype || !Object.getPrototypeOf(value)) {
        return plainMembers(Object.entries(value));
      }
  }
  throw new Failure("invalid", "an expression's value is not text, number, boolean, list or map");
}

function plainMembers(members: Iterable<[unknown, unknown]>): Json {
  return Object.fromEntries([...members].map(([key, member]) => [String(key), plain(member)]));
}

function asText(value: Json): string {
  return typeof value === "string" ? value : canonicalJson(value);
}
