// What an expression reads, from its syntax tree. These are the edges of the dependency graph and the
// reason a component is deployed anew, so a name that only evaluation could tell is a problem.

import type { ASTNode } from "@marcbachmann/cel-js";
import { expressionsOf, parseTemplate, type Template, type TemplateProblem } from "./template.ts";

export type Reference = {
  /** Where in the string, for messages. */
  readonly offset: number;
} & (
  | {
      readonly kind: "component";
      readonly name: string;
      readonly output?: string;
      readonly outputOffset?: number;
    }
  | { readonly kind: "input" | "secret"; readonly name: string }
  | { readonly kind: "install" | "sandbox"; readonly path: readonly string[] }
  | { readonly kind: "unknown"; readonly name: string }
);

export interface FoundReferences {
  readonly references: readonly Reference[];
  readonly problems: readonly TemplateProblem[];
}

/** What one string of a configuration reads. */
export function references(template: string | Template): FoundReferences {
  const parsed = typeof template === "string" ? parseTemplate(template) : template;
  const found: Reference[] = [];
  const problems: TemplateProblem[] = [];
  for (const { ast, offset } of expressionsOf(parsed)) {
    walk(ast, new Set(), (chain) => {
      const read = readChain(chain, offset);
      if ("message" in read) problems.push(read);
      else found.push(read);
    });
  }
  return { references: found, problems };
}

export interface Uses {
  readonly components: readonly string[];
  readonly inputs: readonly string[];
  readonly secrets: readonly string[];
}

/** Everything a whole configuration reads, by kind, sorted, each name once. */
export function usesOf(config: unknown): Uses {
  const found = stringsIn(config).flatMap(({ text }) => references(text).references);
  const names = (kind: Reference["kind"]) =>
    [
      ...new Set(
        found.flatMap((reference) =>
          reference.kind === kind && "name" in reference ? [reference.name] : [],
        ),
      ),
    ].toSorted();
  return { components: names("component"), inputs: names("input"), secrets: names("secret") };
}

export interface PlacedString {
  readonly path: readonly (string | number)[];
  readonly text: string;
}

/** Every string value of a configuration that holds an expression, with its path. */
export function stringsIn(value: unknown, path: readonly (string | number)[] = []): PlacedString[] {
  if (typeof value === "string") return value.includes("${{") ? [{ path, text: value }] : [];
  if (Array.isArray(value))
    return value.flatMap((item, index) => stringsIn(item, [...path, index]));
  if (typeof value === "object" && value !== null) {
    return Object.entries(value).flatMap(([key, item]) => stringsIn(item, [...path, key]));
  }
  return [];
}

/** A name and what is selected from it, as far as the letters tell. */
interface Chain {
  readonly root: string;
  readonly path: readonly { readonly name: string; readonly start: number }[];
  /** Something is selected by a value instead of a name. */
  readonly isOpen: boolean;
  readonly start: number;
}

/** Macros that give a name of their own to what their first argument says. */
const BINDERS: ReadonlySet<string> = new Set([
  "all",
  "exists",
  "exists_one",
  "map",
  "filter",
  "bind",
]);

function walk(node: ASTNode, bound: ReadonlySet<string>, see: (chain: Chain) => void): void {
  const chain = chainOf(node);
  if (chain && !bound.has(chain.root)) see(chain);

  switch (node.op) {
    case "value":
    case "id":
      return;
    case ".":
    case ".?":
      // The chain was seen as a whole; a chain that begins with something else goes on below.
      walkSelected(node.args[0], bound, see, chain !== undefined);
      return;
    case "[]":
    case "[?]":
      walkSelected(node.args[0], bound, see, chain !== undefined);
      walk(node.args[1], bound, see);
      return;
    case "call":
      for (const argument of node.args[1]) walk(argument, bound, see);
      return;
    case "rcall":
      walkMethod(node.args, bound, see);
      return;
    case "list":
      for (const item of node.args) walk(item, bound, see);
      return;
    case "map":
      for (const [key, value] of node.args) {
        walk(key, bound, see);
        walk(value, bound, see);
      }
      return;
    case "!_":
    case "-_":
      walk(node.args, bound, see);
      return;
    default:
      for (const operand of node.args) walk(operand, bound, see);
  }
}

/** Below a chain that was seen, only what stands between brackets is new. */
function walkSelected(
  node: ASTNode,
  bound: ReadonlySet<string>,
  see: (chain: Chain) => void,
  isSeen: boolean,
): void {
  if (!isSeen) return walk(node, bound, see);
  if (node.op === "[]" || node.op === "[?]") walk(node.args[1], bound, see);
  if (node.op === "." || node.op === ".?" || node.op === "[]" || node.op === "[?]") {
    walkSelected(node.args[0], bound, see, true);
  }
}

function walkMethod(
  [method, receiver, args]: [string, ASTNode, ASTNode[]],
  bound: ReadonlySet<string>,
  see: (chain: Chain) => void,
): void {
  const isBind = method === "bind" && receiver.op === "id" && receiver.args === "cel";
  if (!isBind) walk(receiver, bound, see);
  const [first, ...rest] = args;
  if (first?.op !== "id" || !BINDERS.has(method) || rest.length === 0) {
    for (const argument of args) walk(argument, bound, see);
    return;
  }
  const inner = new Set([...bound, first.args]);
  // `cel.bind(x, value, body)`: the value is still outside.
  const [value, ...body] = rest;
  if (value) walk(value, isBind ? bound : inner, see);
  for (const argument of body) walk(argument, inner, see);
}

function chainOf(node: ASTNode): Chain | undefined {
  switch (node.op) {
    case "id":
      return { root: node.args, path: [], isOpen: false, start: node.start };
    case ".":
    case ".?": {
      const inner = chainOf(node.args[0]);
      return inner && extend(inner, node.args[1], node.end - node.args[1].length);
    }
    case "[]":
    case "[?]": {
      const inner = chainOf(node.args[0]);
      const index = node.args[1];
      if (!inner) return undefined;
      return index.op === "value" && typeof index.args === "string"
        ? extend(inner, index.args, index.start)
        : { ...inner, isOpen: true };
    }
    default:
      return undefined;
  }
}

function extend(chain: Chain, name: string, start: number): Chain {
  return chain.isOpen ? chain : { ...chain, path: [...chain.path, { name, start }] };
}

function readChain(chain: Chain, base: number): Reference | TemplateProblem {
  const offset = base + chain.start;
  const [first, second, third] = chain.path;
  switch (chain.root) {
    case "components":
      if (!first) return unnamed(offset, "components", "components.<name>.outputs.<output>");
      if (second?.name !== "outputs") {
        const hint = `write components.${first.name}.outputs.<output>`;
        return {
          offset,
          message: `of component ${first.name}, only its outputs can be read`,
          hint,
        };
      }
      return third
        ? {
            kind: "component",
            offset: base + first.start,
            name: first.name,
            output: third.name,
            outputOffset: base + third.start,
          }
        : { kind: "component", offset: base + first.start, name: first.name };
    case "inputs":
      if (!first) return unnamed(offset, "inputs", "inputs.<name>");
      return { kind: "input", offset: base + first.start, name: first.name };
    case "secrets":
      if (!first) return unnamed(offset, "secrets", "secrets.<name>");
      return { kind: "secret", offset: base + first.start, name: first.name };
    case "install":
    case "sandbox":
      return { kind: chain.root, offset, path: chain.path.map(({ name }) => name) };
    default:
      return { kind: "unknown", offset, name: chain.root };
  }
}

function unnamed(offset: number, scope: string, form: string): TemplateProblem {
  const message = `${scope} must be read by name, so that it is known before anything runs`;
  return { offset, message, hint: `write ${form}` };
}
