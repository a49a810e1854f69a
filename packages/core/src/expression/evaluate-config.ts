// Turns a configuration with expressions into plain values. Runs in the install, where the outputs
// and secrets are; the result goes into the job document and nowhere else.

import { TypeError as CelTypeError, EvaluationError, ParseError } from "@marcbachmann/cel-js";
import { type Budget, createBudget } from "../budget.ts";
import { canonicalJson, type Json } from "../encoding/canonical.ts";
import { Failure } from "../failure.ts";
import { EXPRESSION_STEPS_MAX } from "../limits.ts";
import { evaluateCel } from "./evaluate-cel.ts";
import { type Expression, hasExpression, parseTemplate } from "./template.ts";

const VALUE_STEPS = 4;
const SHOWN_MAX = 200;

export interface Scope {
  readonly install: { readonly id: string; readonly name: string };
  readonly inputs: Readonly<Record<string, unknown>>;
  readonly secrets: Readonly<Record<string, string>>;
  readonly sandbox: Readonly<Record<string, unknown>>;
  readonly components: Readonly<
    Record<string, { readonly outputs: Readonly<Record<string, unknown>> }>
  >;
}

/**
 * The configuration with every expression replaced by its value; throws `invalid` naming the place, and
 * `too_large` when all expressions together ask for more work than a configuration may.
 */
export function evaluateConfig(
  config: Readonly<Record<string, unknown>>,
  scope: Scope,
): Record<string, unknown> {
  return evaluateMembers(config, { scope, budget: newBudget() }, "");
}

interface Evaluation {
  readonly scope: Scope;
  /** One for the whole configuration: many small expressions are as much work as a large one. */
  readonly budget: Budget;
}

function newBudget(): Budget {
  return createBudget(EXPRESSION_STEPS_MAX, "evaluating the expressions of the configuration");
}

/** One string: an expression alone keeps its type, one within text becomes text. */
export function evaluateTemplate(text: string, scope: Scope, place = "the expression"): unknown {
  return evaluateText(text, { scope, budget: newBudget() }, place);
}

function evaluateText(text: string, evaluation: Evaluation, place: string): unknown {
  if (!hasExpression(text)) return text;
  const { parts, problems } = parseTemplate(text);
  const [problem] = problems;
  if (problem) throw new Failure("invalid", `${place}: ${problem.message}`);

  const [only] = parts;
  if (parts.length === 1 && only !== undefined && typeof only !== "string") {
    return evaluateExpression(only, evaluation, place);
  }
  const texts = parts.map((part) =>
    typeof part === "string" ? part : asText(evaluateExpression(part, evaluation, place)),
  );
  return texts.join("");
}

function evaluateValue(value: unknown, evaluation: Evaluation, place: string): unknown {
  if (typeof value === "string") return evaluateText(value, evaluation, place);
  if (Array.isArray(value)) {
    return value.map((item, index) => evaluateValue(item, evaluation, `${place}[${index}]`));
  }
  if (typeof value === "object" && value !== null) return evaluateMembers(value, evaluation, place);
  return value;
}

function evaluateMembers(
  members: object,
  evaluation: Evaluation,
  place: string,
): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(members).map(([key, member]) => [
      key,
      evaluateValue(member, evaluation, place ? `${place}.${key}` : key),
    ]),
  );
}

function evaluateExpression(
  { source }: Expression,
  { scope, budget }: Evaluation,
  place: string,
): Json {
  try {
    return plain(evaluateCel(source, scope, budget), budget);
  } catch (reason) {
    if (reason instanceof Failure) {
      throw new Failure(reason.code, `${place}: ${reason.message}`, { cause: reason });
    }
    if (!isCelError(reason)) throw reason;
    const shown = source.length > SHOWN_MAX ? `${source.slice(0, SHOWN_MAX)}…` : source;
    // The summary names keys and types, never values: it is fit for a log.
    const message = `${place}: \${{${shown}}} has no value: ${reason.summary}`;
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
function plain(value: unknown, budget: Budget): Json {
  // Lists of the same list are small in memory and not on paper.
  budget.spend(typeof value === "string" ? VALUE_STEPS + (value.length >> 4) : VALUE_STEPS);
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
      if (Array.isArray(value)) return value.map((item) => plain(item, budget));
      if (value instanceof Date) return value.toISOString();
      if (value instanceof Map) return plainMembers(value, budget);
      if (Object.getPrototypeOf(value) === Object.prototype || !Object.getPrototypeOf(value)) {
        return plainMembers(Object.entries(value), budget);
      }
  }
  throw new Failure("invalid", "an expression's value is not text, number, boolean, list or map");
}

function plainMembers(members: Iterable<[unknown, unknown]>, budget: Budget): Json {
  return Object.fromEntries(
    [...members].map(([key, member]) => [String(key), plain(member, budget)]),
  );
}

function asText(value: Json): string {
  return typeof value === "string" ? value : canonicalJson(value);
}
