// A YAML text and where in it everything stands.

import {
  type Document,
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
  type Node,
  parseDocument,
  type Scalar,
  visit,
  type YAMLError,
  type YAMLWarning,
} from "yaml";
import type { Path, Problem } from "./problem.ts";

export interface YamlSource {
  readonly value: unknown;
  /** What the YAML itself gets wrong; the value is not to be trusted then. */
  readonly problems: readonly Problem[];
  /** The place of a value, or of the nearest thing around it that exists. */
  at(path: Path): Place;
  /** The place of a key of the mapping at `path`. */
  atKey(path: Path, key: string): Place;
  /** The place of one letter of the string at `path`, however it is quoted or folded. */
  atLetter(path: Path, offset: number): Place;
}

export interface Place {
  readonly line: number;
  readonly column: number;
}

export function readYaml(text: string, file: string): YamlSource {
  const document = parseDocument(text, { prettyErrors: false });
  const starts = lineStarts(text);
  const place = (offset: number): Place => {
    const line = starts.findLastIndex((start) => start <= offset);
    return { line: line + 1, column: offset - (starts[line] ?? 0) + 1 };
  };
  const problems = faultsOf(document).map(
    ({ offset, message }): Problem => ({
      file,
      ...place(offset),
      message: `this is not YAML: ${message}`,
      path: [],
    }),
  );
  const read = problems.length > 0 ? { value: undefined, problems } : readValue();

  return {
    ...read,
    at: (path) => place(startOf(nearest(document, path))),
    atKey: (path, key) => place(keyStart(nearest(document, path), key)),
    atLetter: (path, offset) => place(letterStart(text, nearest(document, path), offset)),
  };

  function readValue() {
    try {
      return { value: document.toJS() as unknown, problems };
    } catch (reason) {
      // So many aliases that they are an attack.
      const message = `this is not YAML: ${reason instanceof Error ? reason.message : String(reason)}`;
      return { value: undefined, problems: [{ file, line: 1, column: 1, message, path: [] }] };
    }
  }
}

/** Counted here, because the library's own counter loses lines in a text that is no YAML. */
function lineStarts(text: string): number[] {
  return [0, ...Array.from(text.matchAll(/\n/g), ({ index }) => index + 1)];
}

interface Fault {
  readonly offset: number;
  readonly message: string;
}

function faultsOf(document: Document): Fault[] {
  const { errors, warnings } = document;
  // After a token that fits nowhere, every further one does not fit either.
  const lost = errors.findIndex(({ code }) => code === "UNEXPECTED_TOKEN");
  const telling = lost < 0 ? errors : errors.slice(0, lost + 1);
  const faults = [...telling, ...warnings].map(asFault);
  // A text that is no YAML has no tree worth looking at.
  return errors.length > 0 ? faults : [...faults, ...unfitFaults(document)];
}

function asFault({ pos, message, code }: YAMLError | YAMLWarning): Fault {
  const isMany = code === "MULTIPLE_DOCS";
  return { offset: pos[0], message: isMany ? "there is more than one document" : message };
}

/** What YAML can say and JSON cannot: the value has to be storable, and finite. */
function unfitFaults(document: Document): Fault[] {
  const faults: Fault[] = [];
  const report = (node: unknown, message: string) => {
    faults.push({ offset: isNode(node) ? startOf(node) : 0, message });
  };
  visit(document, {
    Alias(_, alias, path) {
      const target = alias.resolve(document);
      if (!target) report(alias, `there is no anchor for the alias *${alias.source}`);
      else if (path.includes(target)) report(alias, `the alias *${alias.source} contains itself`);
    },
    Pair(_, { key }) {
      if (!isScalar(key)) report(key, "a key must be a single word");
      else if (key.value === "__proto__") report(key, "`__proto__` cannot be a key");
    },
    Scalar(_, scalar) {
      const { value } = scalar;
      const isPlain = value === null || ["string", "boolean"].includes(typeof value);
      if (!isPlain && !Number.isFinite(value)) report(scalar, "this value has no JSON form");
    },
  });
  return faults;
}

function nearest(document: Document, path: Path): Node | undefined {
  let node = resolved(document.contents, document);
  for (const step of path) {
    const next = childOf(node, step);
    if (!next) return node;
    node = resolved(next, document);
  }
  return node;
}

function resolved(node: unknown, document: Document): Node | undefined {
  if (isAlias(node)) return node.resolve(document) ?? node;
  return isNode(node) ? node : undefined;
}

function childOf(node: Node | undefined, step: string | number): unknown {
  if (isSeq(node)) return node.items[Number(step)];
  const pair = isMap(node)
    ? node.items.find(({ key }) => keyText(key) === String(step))
    : undefined;
  // A key without a value still has a place: its own.
  return isNode(pair?.value) && pair.value.range ? pair.value : pair?.key;
}

function keyText(key: unknown): string {
  return isScalar(key) ? String(key.value) : "";
}

function startOf(node: Node | undefined): number {
  return node?.range?.[0] ?? 0;
}

function keyStart(node: Node | undefined, key: string): number {
  const pair = isMap(node) ? node.items.find((item) => keyText(item.key) === key) : undefined;
  return isNode(pair?.key) ? startOf(pair.key) : startOf(node);
}

function letterStart(text: string, node: Node | undefined, offset: number): number {
  if (!isScalar(node) || typeof node.value !== "string") return startOf(node);
  return walkScalar(text, contentStart(text, node), node as Scalar<string>, offset);
}

function contentStart(text: string, node: Scalar): number {
  const start = startOf(node);
  switch (node.type) {
    case "QUOTE_DOUBLE":
    case "QUOTE_SINGLE":
      return start + 1;
    case "BLOCK_LITERAL":
    case "BLOCK_FOLDED":
      return text.indexOf("\n", start) + 1;
    default:
      return start;
  }
}

/**
 * Goes through the text and the value side by side: indentation and folded lines are in the text
 * alone, an escape is several letters there and one in the value.
 */
function walkScalar(text: string, start: number, node: Scalar<string>, offset: number): number {
  const { value, type } = node;
  let at = skipIndent(text, start, value[0]);
  for (let index = 0; index < offset; index++) {
    const letter = value[index];
    if (type === "QUOTE_DOUBLE" && text[at] === "\\") at += escapeLength(text, at);
    else if (type === "QUOTE_SINGLE" && text.startsWith("''", at)) at += 2;
    else if (text[at] === letter && letter !== "\n") at += 1;
    else if (isBlank(letter) && isBlank(text[at])) at += 1;
    at = skipIndent(text, at, value[index + 1]);
  }
  return at;
}

/** White space that the value does not have at this place. */
function skipIndent(text: string, at: number, letter: string | undefined): number {
  let next = at;
  while (next < text.length && isBlank(text[next]) && !isBlank(letter)) next++;
  return next;
}

function isBlank(letter: string | undefined): boolean {
  return letter === " " || letter === "\n" || letter === "\r" || letter === "\t";
}

function escapeLength(text: string, at: number): number {
  const lengths: Record<string, number> = { x: 4, u: 6, U: 10 };
  return lengths[text[at + 1] ?? ""] ?? 2;
}
