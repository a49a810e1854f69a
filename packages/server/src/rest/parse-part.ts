// Reads what a request carries with the schema of its call. What is wrong is said in a few lines, however much is wrong.

import { Failure, isDeeperThan, JSON_DEPTH_MAX } from "@exclave/core";
import type { z } from "zod";

/** Values of a body: each can become a fault with a text of its own, and all of them are made before one is shown. */
export const BODY_VALUES_MAX = 50_000;
const FAULTS_SHOWN = 10;
const FAULT_LETTERS_MAX = 300;

export function parseBody<Schema extends z.ZodType>(
  schema: Schema,
  body: unknown,
): z.output<Schema> {
  if (isDeeperThan(body, JSON_DEPTH_MAX)) {
    throw new Failure("invalid", `the body has values nested over ${JSON_DEPTH_MAX} deep`);
  }
  if (hasMoreValuesThan(body, BODY_VALUES_MAX)) {
    throw new Failure("too_large", `the body has over ${BODY_VALUES_MAX} values`);
  }
  return parsePart(schema, body ?? {}, "body");
}

export function parsePart<Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
  part: string,
): z.output<Schema> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const { issues } = parsed.error;
  const shown = issues
    .slice(0, FAULTS_SHOWN)
    .map(({ path, message }) =>
      cut([path.join("."), message].filter((text) => text !== "").join(": ")),
    );
  const more = issues.length > FAULTS_SHOWN ? [`and ${issues.length - FAULTS_SHOWN} more`] : [];
  throw new Failure("invalid", `the ${part} is wrong: ${[...shown, ...more].join("; ")}`);
}

function cut(text: string): string {
  return text.length > FAULT_LETTERS_MAX ? `${text.slice(0, FAULT_LETTERS_MAX)}…` : text;
}

/** Looked at without recursion. */
function hasMoreValuesThan(value: unknown, valuesMax: number): boolean {
  const left = [value];
  let count = 0;
  for (let next = left.pop(); left.length > 0 || next !== undefined; next = left.pop()) {
    if (++count + left.length > valuesMax) return true;
    if (typeof next !== "object" || next === null) continue;
    for (const member of Object.values(next)) left.push(member);
  }
  return false;
}
