// Regular expressions as JavaScript and RE2 both write them, read into a tree. What needs backtracking
// (back-references, look-around) is refused: it cannot be matched in time that grows with the text alone.

import { Failure } from "../failure.ts";
import { PATTERN_DEPTH_MAX, PATTERN_LENGTH_MAX } from "../limits.ts";
import { anyOf, ESCAPED_CLASSES, except, type Letters, LINE_ENDS, range } from "./letters.ts";

export type PatternNode =
  | { readonly kind: "letter"; readonly letters: Letters }
  | { readonly kind: "place"; readonly place: Place }
  | { readonly kind: "sequence"; readonly parts: readonly PatternNode[] }
  | { readonly kind: "choice"; readonly options: readonly PatternNode[] }
  | {
      readonly kind: "repeat";
      readonly node: PatternNode;
      readonly min: number;
      /** `Infinity` where there is no limit. */
      readonly max: number;
    };

export type Place = "start" | "end" | "word-edge" | "no-word-edge";

const REPEATS_MAX = 1_000;
const CONTROLS: Record<string, number> = { t: 9, n: 10, v: 11, f: 12, r: 13, 0: 0 };

/** Throws `invalid` for what is no pattern, or none of this kind. */
export function parsePattern(source: string): PatternNode {
  if (source.length > PATTERN_LENGTH_MAX) {
    throw new Failure("too_large", `a pattern has at most ${PATTERN_LENGTH_MAX} letters`);
  }
  const reader: Reader = { letters: Array.from(source), at: 0 };
  const node = choice(reader, 0);
  if (reader.at < reader.letters.length) throw wrong("there is a `)` too many");
  return node;
}

/** The pattern, and how far it was read. */
interface Reader {
  readonly letters: readonly string[];
  at: number;
}

function choice(reader: Reader, depth: number): PatternNode {
  if (depth > PATTERN_DEPTH_MAX) throw wrong(`groups are nested over ${PATTERN_DEPTH_MAX} deep`);
  const options = [sequence(reader, depth)];
  while (take(reader, "|")) options.push(sequence(reader, depth));
  const [only] = options;
  return options.length === 1 && only ? only : { kind: "choice", options };
}

function sequence(reader: Reader, depth: number): PatternNode {
  const parts: PatternNode[] = [];
  while (
    reader.at < reader.letters.length &&
    reader.letters[reader.at] !== "|" &&
    reader.letters[reader.at] !== ")"
  ) {
    parts.push(repeated(reader, atom(reader, depth)));
  }
  return { kind: "sequence", parts };
}

function repeated(reader: Reader, node: PatternNode): PatternNode {
  const bounds = quantifier(reader);
  if (!bounds) return node;
  const [min, max] = bounds;
  if (min > max) throw wrong("the numbers of a repeat are out of order");
  if (min > REPEATS_MAX || (max !== Infinity && max > REPEATS_MAX)) {
    throw wrong(`a repeat counts to at most ${REPEATS_MAX}`);
  }
  // Greedy or not changes what is found, not whether something is.
  take(reader, "?");
  if (quantifier(reader)) throw wrong("there is nothing to repeat");
  return { kind: "repeat", node, min, max };
}

function quantifier(reader: Reader): readonly [number, number] | undefined {
  if (take(reader, "*")) return [0, Infinity];
  if (take(reader, "+")) return [1, Infinity];
  if (take(reader, "?")) return [0, 1];
  if (reader.letters[reader.at] !== "{") return undefined;
  const counted = /^\{(\d{1,5})(,(\d{0,5}))?\}/.exec(
    reader.letters.slice(reader.at, reader.at + 16).join(""),
  );
  if (!counted) return undefined;
  reader.at += counted[0].length;
  const min = Number(counted[1]);
  if (counted[2] === undefined) return [min, min];
  return [min, counted[3] === "" ? Infinity : Number(counted[3])];
}

function atom(reader: Reader, depth: number): PatternNode {
  const letter = reader.letters[reader.at++] ?? "";
  switch (letter) {
    case "(":
      return group(reader, depth);
    case "[":
      return { kind: "letter", letters: letterClass(reader) };
    case ".":
      return { kind: "letter", letters: except(LINE_ENDS) };
    case "^":
      return { kind: "place", place: "start" };
    case "$":
      return { kind: "place", place: "end" };
    case "*":
    case "+":
    case "?":
      throw wrong("there is nothing to repeat");
    case "\\":
      return escaped(reader);
    default:
      return { kind: "letter", letters: only(letter) };
  }
}

function group(reader: Reader, depth: number): PatternNode {
  if (take(reader, "?")) {
    if (take(reader, "<")) {
      if (reader.letters[reader.at] === "=" || reader.letters[reader.at] === "!")
        throw needsBacktracking("look-behind");
      while (reader.at < reader.letters.length && reader.letters[reader.at] !== ">") reader.at++;
      if (!take(reader, ">")) throw wrong("a group's name does not end");
    } else if (reader.letters[reader.at] === "=" || reader.letters[reader.at] === "!") {
      throw needsBacktracking("look-ahead");
    } else if (!take(reader, ":")) {
      throw wrong("flags within a pattern are not known here");
    }
  }
  const node = choice(reader, depth + 1);
  if (!take(reader, ")")) throw wrong("a group does not end");
  return node;
}

function escaped(reader: Reader): PatternNode {
  const letter = reader.letters[reader.at] ?? "";
  if (letter === "b" || letter === "B") {
    reader.at++;
    return { kind: "place", place: letter === "b" ? "word-edge" : "no-word-edge" };
  }
  if (/^[1-9k]$/.test(letter)) throw needsBacktracking("a back-reference");
  const one = escapedLetters(reader);
  return { kind: "letter", letters: typeof one === "number" ? range(one, one) : one };
}

/** After the backslash: a class of letters, or the code of one. */
function escapedLetters(reader: Reader): Letters | number {
  const letter = reader.letters[reader.at++];
  if (letter === undefined) throw wrong("it ends with a backslash");
  const known = ESCAPED_CLASSES[letter];
  if (known) return known;
  if (letter === "p" || letter === "P") return property(reader, letter === "P");
  if (letter === "x") return hexadecimal(reader, 2);
  if (letter === "u")
    return reader.letters[reader.at] === "{" ? bracedCode(reader) : hexadecimal(reader, 4);
  const control = CONTROLS[letter];
  if (control !== undefined) return control;
  if (/^[a-zA-Z0-9]$/.test(letter)) throw wrong(`\\${letter} means nothing`);
  return letter.codePointAt(0) ?? 0;
}

function hexadecimal(reader: Reader, digits: number): number {
  const text = reader.letters.slice(reader.at, reader.at + digits).join("");
  if (text.length !== digits || !/^[0-9a-fA-F]+$/.test(text)) {
    throw wrong("a letter's code is not hexadecimal");
  }
  reader.at += digits;
  return Number.parseInt(text, 16);
}

function bracedCode(reader: Reader): number {
  const text = braced(reader);
  const code = /^[0-9a-fA-F]{1,6}$/.test(text) ? Number.parseInt(text, 16) : Infinity;
  if (code > 0x10ffff) throw wrong("there is no letter of that code");
  return code;
}

function property(reader: Reader, isNegated: boolean): Letters {
  const name = braced(reader);
  if (!/^[A-Za-z_=0-9]{1,60}$/.test(name)) throw wrong("there is no such property of letters");
  try {
    const single = new RegExp(`^\\p{${name}}$`, "u");
    const has: Letters = (code) => single.test(String.fromCodePoint(code));
    return isNegated ? except(has) : has;
  } catch {
    throw wrong("there is no such property of letters");
  }
}

function braced(reader: Reader): string {
  if (!take(reader, "{")) throw wrong("a `{` is missing");
  const end = reader.letters.indexOf("}", reader.at);
  if (end < 0) throw wrong("a `}` is missing");
  const text = reader.letters.slice(reader.at, end).join("");
  reader.at = end + 1;
  return text;
}

function letterClass(reader: Reader): Letters {
  const isNegated = take(reader, "^");
  const members: Letters[] = [];
  while (!take(reader, "]")) {
    const from = classMember(reader);
    if (
      reader.letters[reader.at] === "-" &&
      reader.letters[reader.at + 1] !== "]" &&
      reader.at + 1 < reader.letters.length
    ) {
      reader.at++;
      const to = classMember(reader);
      if (typeof from !== "number" || typeof to !== "number" || from > to) {
        throw wrong("a range of letters is out of order");
      }
      members.push(range(from, to));
    } else {
      members.push(typeof from === "number" ? range(from, from) : from);
    }
  }
  const all = anyOf(members);
  return isNegated ? except(all) : all;
}

function classMember(reader: Reader): Letters | number {
  const letter = reader.letters[reader.at++];
  if (letter === undefined) throw wrong("a `[` does not end");
  if (letter !== "\\") return letter.codePointAt(0) ?? 0;
  if (take(reader, "b")) return 8;
  return escapedLetters(reader);
}

function take(reader: Reader, letter: string): boolean {
  if (reader.letters[reader.at] !== letter) return false;
  reader.at++;
  return true;
}

function only(letter: string): Letters {
  const code = letter.codePointAt(0) ?? 0;
  return range(code, code);
}

function wrong(why: string): Failure {
  return new Failure("invalid", `the pattern cannot be read: ${why}`);
}

function needsBacktracking(what: string): Failure {
  return wrong(`${what} cannot be matched in bounded time`);
}
