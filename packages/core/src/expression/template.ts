// A string of a configuration, taken apart: plain text and `${{ … }}` expressions in CEL. Parsing
// never throws; what is wrong comes back as problems, each with its place in the string.

import { type ASTNode, ParseError } from "@marcbachmann/cel-js";
import { EXPRESSION_LENGTH_MAX } from "../limits.ts";
import { celParser } from "./cel.ts";

export interface Expression {
  /** CEL, without the braces. */
  readonly source: string;
  /** Where `source` begins in the string. */
  readonly offset: number;
  readonly ast: ASTNode;
}

export interface Template {
  readonly parts: readonly (string | Expression)[];
  readonly problems: readonly TemplateProblem[];
}

export interface TemplateProblem {
  /** Where in the string. */
  readonly offset: number;
  readonly message: string;
  readonly hint?: string;
}

const OPEN = "${{";
const CLOSE = "}}";

export function hasExpression(text: string): boolean {
  return text.includes(OPEN);
}

export function parseTemplate(text: string): Template {
  const parts: (string | Expression)[] = [];
  const problems: TemplateProblem[] = [];
  let done = 0;
  for (let open = text.indexOf(OPEN); open >= 0; open = text.indexOf(OPEN, done)) {
    if (open > done) parts.push(text.slice(done, open));
    const start = open + OPEN.length;
    const end = findClose(text, start);
    if (end === undefined) {
      problems.push({ offset: open, message: `this \`${OPEN}\` has no \`${CLOSE}\`` });
      return { parts, problems };
    }
    const expression = parseExpression(text.slice(start, end), start);
    if ("message" in expression) problems.push(expression);
    else parts.push(expression);
    done = end + CLOSE.length;
  }
  if (done < text.length) parts.push(text.slice(done));
  return { parts, problems };
}

/** The expressions of a template, in order. */
export function expressionsOf({ parts }: Template): Expression[] {
  return parts.filter((part) => typeof part !== "string");
}

function parseExpression(source: string, offset: number): Expression | TemplateProblem {
  if (source.length > EXPRESSION_LENGTH_MAX) {
    return { offset, message: `an expression has at most ${EXPRESSION_LENGTH_MAX} letters` };
  }
  if (source.trim() === "") return { offset, message: "there is no expression between the braces" };
  try {
    return { source, offset, ast: celParser.parse(source).ast };
  } catch (reason) {
    if (!(reason instanceof ParseError)) throw reason;
    const at = reason.range?.start ?? 0;
    return { offset: offset + at, message: `this is not a CEL expression: ${reason.summary}` };
  }
}

/** The first `}}` that closes nothing opened inside: CEL has braces of its own, and strings. */
function findClose(text: string, start: number): number | undefined {
  let depth = 0;
  for (let index = start; index < text.length; index++) {
    const letter = text[index];
    if (letter === '"' || letter === "'") index = endOfString(text, index, letter);
    else if (letter === "{") depth++;
    else if (letter === "}" && depth > 0) depth--;
    else if (text.startsWith(CLOSE, index)) return index;
  }
  return undefined;
}

function endOfString(text: string, start: number, quote: string): number {
  const triple = quote.repeat(3);
  const close = text.startsWith(triple, start) ? triple : quote;
  for (let index = start + close.length; index < text.length; index++) {
    if (text[index] === "\\") index++;
    else if (text.startsWith(close, index)) return index + close.length - 1;
  }
  return text.length;
}
