// Checks a value against the part of JSON Schema that plugins describe their configuration with. A
// string with an expression fits any type: what it will be is known only in the install.

import { type Budget, createBudget } from "../budget.ts";
import { canonicalJson } from "../encoding/canonical.ts";
import { hasExpression } from "../expression/template.ts";
import { SCHEMA_STEPS_MAX } from "../limits.ts";
import { matchesPattern } from "../pattern/match-pattern.ts";
import { suggest } from "../suggest.ts";
import type { Path } from "./problem.ts";

export type JsonSchema = boolean | Readonly<Record<string, unknown>>;

export interface SchemaProblem {
  readonly path: Path;
  /** Set when the problem is this key of the mapping at `path`, not the value there. */
  readonly key?: string;
  readonly message: string;
  readonly hint?: string;
}

/** Throws `too_large` when schema and value together ask for more work than a check may take. */
export function checkJson(schema: unknown, value: unknown, path: Path = []): SchemaProblem[] {
  const budget = createBudget(SCHEMA_STEPS_MAX, "checking the configuration against its schema");
  return check(schema, value, path, budget);
}

function check(schema: unknown, value: unknown, path: Path, budget: Budget): SchemaProblem[] {
  budget.spend(1 + path.length);
  if (schema === false) return [{ path, message: "nothing is allowed here" }];
  if (!isRecord(schema)) return [];
  if (typeof value === "string" && hasExpression(value)) return [];
  return [
    ...checkType(schema, value, path),
    ...checkChoices(schema, value, path, budget),
    ...checkNumber(schema, value, path),
    ...checkString(schema, value, path, budget),
    ...checkList(schema, value, path, budget),
    ...checkMapping(schema, value, path, budget),
    ...checkAlternatives(schema, value, path, budget),
  ];
}

const CHOICES_SHOWN_MAX = 50;
const SHOWN_LENGTH_MAX = 200;

type Schema = Readonly<Record<string, unknown>>;

function checkType({ type }: Schema, value: unknown, path: Path): SchemaProblem[] {
  const types = (Array.isArray(type) ? type : [type]).filter((name) => typeof name === "string");
  if (types.length === 0 || types.some((name) => isOfType(value, name))) return [];
  return [{ path, message: `must be ${types.map(article).join(" or ")}, not ${describe(value)}` }];
}

function isOfType(value: unknown, type: string): boolean {
  switch (type) {
    case "integer":
      return Number.isInteger(value);
    case "array":
      return Array.isArray(value);
    case "object":
      return isRecord(value);
    case "null":
      return value === null;
    default:
      return typeof value === type;
  }
}

function checkChoices(schema: Schema, value: unknown, path: Path, budget: Budget): SchemaProblem[] {
  const choices = schema["enum"];
  if (!("const" in schema) && !Array.isArray(choices)) return [];
  const said = canonicalJson(value ?? null);
  const isSame = (choice: unknown) => {
    const expected = canonicalJson(choice);
    budget.spend(expected.length);
    return expected === said;
  };
  budget.spend(said.length);
  if ("const" in schema && !isSame(schema["const"])) {
    return [{ path, message: `must be ${shown(schema["const"])}` }];
  }
  if (!Array.isArray(choices) || choices.some(isSame)) return [];
  const more = choices.length > CHOICES_SHOWN_MAX ? ", …" : "";
  const list = choices.slice(0, CHOICES_SHOWN_MAX).map(shown).join(", ");
  const message = `must be one of ${list}${more}`;
  const words = choices.filter((choice) => typeof choice === "string");
  const hint = typeof value === "string" && words.length > 8 ? suggest(value, words) : undefined;
  return [hint ? { path, message, hint } : { path, message }];
}

function checkNumber(schema: Schema, value: unknown, path: Path): SchemaProblem[] {
  if (typeof value !== "number") return [];
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum } = schema;
  const problems: SchemaProblem[] = [];
  const limit = (bound: unknown, isOver: (bound: number) => boolean, words: string) => {
    if (typeof bound === "number" && isOver(bound))
      problems.push({ path, message: `must be ${words} ${bound}` });
  };
  limit(minimum, (bound) => value < bound, "at least");
  limit(maximum, (bound) => value > bound, "at most");
  limit(exclusiveMinimum, (bound) => value <= bound, "more than");
  limit(exclusiveMaximum, (bound) => value >= bound, "less than");
  return problems;
}

function checkString(schema: Schema, value: unknown, path: Path, budget: Budget): SchemaProblem[] {
  if (typeof value !== "string") return [];
  const { minLength, maxLength, pattern } = schema;
  if (typeof minLength === "number" && value.length < minLength) {
    return [
      {
        path,
        message: minLength === 1 ? "must not be empty" : `must have at least ${minLength} letters`,
      },
    ];
  }
  if (typeof maxLength === "number" && value.length > maxLength) {
    return [{ path, message: `must have at most ${maxLength} letters` }];
  }
  if (typeof pattern === "string" && !matches(pattern, value, budget)) {
    return [{ path, message: `must match ${shortened(pattern)}` }];
  }
  return [];
}

/** A pattern that cannot be read is the plugin's mistake, and no reason to refuse what a vendor wrote. */
function matches(pattern: string, value: string, budget: Budget): boolean {
  try {
    return matchesPattern(pattern, value, budget);
  } catch (reason) {
    if (budget.isSpent) throw reason;
    return true;
  }
}

function checkList(schema: Schema, value: unknown, path: Path, budget: Budget): SchemaProblem[] {
  if (!Array.isArray(value)) return [];
  const { items, prefixItems, minItems, maxItems } = schema;
  const places = Array.isArray(prefixItems) ? prefixItems : [];
  const problems = value.flatMap((item, index) =>
    check(places[index] ?? items, item, [...path, index], budget),
  );
  if (typeof minItems === "number" && value.length < minItems) {
    problems.push({ path, message: `must have at least ${minItems} items` });
  }
  if (typeof maxItems === "number" && value.length > maxItems) {
    problems.push({ path, message: `must have at most ${maxItems} items` });
  }
  return problems;
}

function checkMapping(schema: Schema, value: unknown, path: Path, budget: Budget): SchemaProblem[] {
  if (!isRecord(value)) return [];
  const properties = isRecord(schema["properties"]) ? schema["properties"] : {};
  const required = Array.isArray(schema["required"]) ? schema["required"].map(String) : [];
  const rest = schema["additionalProperties"];
  const missing = required
    .filter((key) => !Object.hasOwn(value, key))
    .map((key) => ({ path, message: `\`${key}\` is missing` }));
  const members = Object.entries(value).flatMap(([key, member]): SchemaProblem[] => {
    const place = [...path, key];
    if (Object.hasOwn(properties, key)) return check(properties[key], member, place, budget);
    if (rest === false) return [unknownKey(path, key, Object.keys(properties))];
    return [
      ...check(schema["propertyNames"], key, place, budget),
      ...check(rest, member, place, budget),
    ];
  });
  return [...missing, ...members];
}

export function unknownKey(path: Path, key: string, known: readonly string[]): SchemaProblem {
  const message = `there is no key \`${key}\` here`;
  const hint = suggest(key, known);
  return hint ? { path, key, message, hint } : { path, key, message };
}

function checkAlternatives(
  { anyOf, oneOf, allOf }: Schema,
  value: unknown,
  path: Path,
  budget: Budget,
): SchemaProblem[] {
  const parts = Array.isArray(allOf) ? allOf : [];
  return [
    ...parts.flatMap((part) => check(part, value, path, budget)),
    ...checkSome(anyOf, value, path, budget),
    ...checkSome(oneOf, value, path, budget),
  ];
}

/** Reports against the alternative that fits best: the others were probably not meant. */
function checkSome(
  alternatives: unknown,
  value: unknown,
  path: Path,
  budget: Budget,
): SchemaProblem[] {
  if (!Array.isArray(alternatives) || alternatives.length === 0) return [];
  const attempts = alternatives.map((alternative) => check(alternative, value, path, budget));
  if (attempts.some((problems) => problems.length === 0)) return [];
  const deep = attempts.filter((problems) => problems.every((problem) => isBelow(problem, path)));
  const [best] = deep.toSorted((a, b) => a.length - b.length);
  if (best) return best;
  const messages = new Set(attempts.flatMap(([first]) => first?.message ?? []));
  return [{ path, message: [...messages].join(", or ") }];
}

/** A problem with what is inside, not with what kind of thing it is. */
function isBelow({ path, key }: SchemaProblem, around: Path): boolean {
  return path.length > around.length || key !== undefined;
}

/** In a message: long values are cut, and whoever wrote them knows them. */
function shown(value: unknown): string {
  return shortened(canonicalJson(value));
}

function shortened(text: string): string {
  return text.length > SHOWN_LENGTH_MAX ? `${text.slice(0, SHOWN_LENGTH_MAX)}…` : text;
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

const WORDS: Record<string, string> = {
  object: "a mapping",
  array: "a list",
  integer: "a whole number",
};

function article(type: string): string {
  return WORDS[type] ?? (type === "null" ? "null" : `a ${type}`);
}

function describe(value: unknown): string {
  if (value === null || value === undefined) return "nothing";
  if (Array.isArray(value)) return "a list";
  return typeof value === "object" ? "a mapping" : `the ${typeof value} ${shown(value)}`;
}
