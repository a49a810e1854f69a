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
import { PROBLEMS_MAX } from "../limits.ts";
import type { Path, Problem } from "./problem.ts";
import { expandedOversize, oversizeOf } from "./yaml-bounds.ts";

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
  const oversize = oversizeOf(text);
  if (oversize !== undefined) return tooLarge(file, oversize);
  // Keys are compared here: the library compares each with each.
  const document = parseDocument(text, { prettyErrors: false, uniqueKeys: false });
  const targets = aliasTargets(document);
  const starts = lineStarts(text);
  const place = (offset: number): Place => {
    const line = lastAtMost(starts, offset);
    return { line: line + 1, column: offset - (starts[line] ?? 0) + 1 };
  };
  const faults = faultsOf(document, targets);
  const expanded =
    faults.length > 0 ? undefined : expandedOversize(document.contents, (one) => targets.get(one));
  if (expanded !== undefined) return tooLarge(file, expanded);
  const problems = faults.slice(0, PROBLEMS_MAX).map(
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
    at: (path) => place(startOf(nearest(document, path, targets))),
    atKey: (path, key) => place(keyStart(nearest(document, path, targets), key)),
    atLetter: (path, offset) => place(letterStart(text, nearest(document, path, targets), offset)),
  };

  function readValue() {
    // What the aliases stand for was counted above.
    return { value: document.toJS({ maxAliasCount: -1 }) as unknown, problems };
  }
}

function tooLarge(file: string, why: string): YamlSource {
  const place = { line: 1, column: 1 };
  const message = `this is too large to be read: ${why}`;
  const problems = [{ file, ...place, message, path: [] }];
  return { value: undefined, problems, at: () => place, atKey: () => place, atLetter: () => place };
}

type Targets = ReadonlyMap<Node, Node>;

/** Each alias with the last anchor of its name before it, found in one walk. */
function aliasTargets(document: Document): Targets {
  const anchors = new Map<string, Node>();
  const targets = new Map<Node, Node>();
  visit(document, {
    Node(_, node) {
      if (isAlias(node)) {
        const target = anchors.get(node.source);
        if (target) targets.set(node, target);
      } else if (node.anchor) {
        anchors.set(node.anchor, node);
      }
    },
  });
  return targets;
}

function lastAtMost(starts: readonly number[], offset: number): number {
  let low = 0;
  let high = starts.length;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if ((starts[middle] ?? 0) <= offset) low = middle;
    else high = middle;
  }
  return low;
}

/** Counted here, because the library's own counter loses lines in a text that is no YAML. */
function lineStarts(text: string): number[] {
  return [0, ...Array.from(text.matchAll(/\n/g), ({ index }) => index + 1)];
}

interface Fault {
  readonly offset: number;
  readonly message: string;
}

function faultsOf(document: Document, targets: Targets): Fault[] {
  const { errors, warnings } = document;
  // After a token that fits nowhere, every further one does not fit either.
  const lost = errors.findIndex(({ code }) => code === "UNEXPECTED_TOKEN");
  const telling = lost < 0 ? errors : errors.slice(0, lost + 1);
  const faults = [...telling, ...warnings].map(asFault);
  // A text that is no YAML has no tree worth looking at.
  return errors.length > 0 ? faults : [...faults, ...unfitFaults(document, targets)];
}

function asFault({ pos, message, code }: YAMLError | YAMLWarning): Fault {
  const isMany = code === "MULTIPLE_DOCS";
  return { offset: pos[0], message: isMany ? "there is more than one document" : message };
}

/** What YAML can say and JSON cannot: the value has to be storable, and finite. */
function unfitFaults(document: Document, targets: Targets): Fault[] {
  const faults: Fault[] = [];
  const report = (node: unknown, message: string) => {
    faults.push({ offset: isNode(node) ? startOf(node) : 0, message });
  };
  visit(document, {
    Alias(_, alias, path) {
      const target = targets.get(alias);
      if (!target) report(alias, `there is no anchor for the alias *${alias.source}`);
      else if (path.includes(target)) report(alias, `the alias *${alias.source} contains itself`);
    },
    Map(_, { items }) {
      const seen = new Set<unknown>();
      for (const { key } of items) {
        const name = isScalar(key) ? key.value : key;
        if (seen.has(name)) report(key, "Map keys must be unique");
        seen.add(name);
      }
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

function nearest(document: Document, path: Path, targets: Targets): Node | undefined {
  let node = resolved(document.contents, targets);
  for (const step of path) {
    const next = childOf(node, step);
    if (!next) return node;
    node = resolved(next, targets);
  }
  return node;
}

function resolved(node: unknown, targets: Targets): Node | undefined {
  if (isAlias(node)) return targets.get(node) ?? node;
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
