// Evaluates one CEL expression within a budget. The library has no limit of its own on loops within loops, on text
// that doubles, or on what its regular expressions do; every value it computes passes through one method of
// its evaluator, and there each is counted with its size.

import type { ASTNode } from "@marcbachmann/cel-js";
import type { Budget } from "../budget.ts";
import { matchesPattern } from "../pattern/match-pattern.ts";
import { createDialect } from "./cel.ts";

const dialect = createDialect(true);

/** Throws the library's errors, and `too_large` when the budget does not suffice. */
export function evaluateCel(source: string, scope: object, budget: Budget): unknown {
  budget.spend(source.length);
  const evaluate = dialect.parse(source);
  meter(evaluate.ast, budget);
  const value: unknown = evaluate(scope);
  // `true || …` is true even if what stands behind it could not be told: that it took too much can.
  if (budget.isSpent) budget.spend(0);
  return value;
}

type MeteredNode = ASTNode & {
  evaluate?: (evaluator: Evaluator, node: MeteredNode, context: unknown) => unknown;
};

interface Evaluator {
  run(node: MeteredNode, context: unknown): unknown;
}

/** A call may cost what a hundred other steps cost: time zones, texts that become numbers. */
const CALL_STEPS = 50;

/** Takes the place of the evaluator's own `run`, from the root of this expression on. */
function meter(root: MeteredNode, budget: Budget): void {
  let around: ASTNode["op"] | undefined;

  root.evaluate = (evaluator, node, context) => {
    Reflect.deleteProperty(root, "evaluate");
    evaluator.run = (inner, within) => run(evaluator, inner, within);
    return evaluator.run(node, context);
  };

  function run(evaluator: Evaluator, node: MeteredNode, context: unknown): unknown {
    const isCall = node.op === "call" || node.op === "rcall";
    budget.spend(isCall ? CALL_STEPS : 1);
    const outer = around;
    around = node.op;
    try {
      const value = valueOf(evaluator, node, context);
      budget.spend(sizeOf(value, outer));
      return value;
    } finally {
      around = outer;
    }
  }

  function valueOf(evaluator: Evaluator, node: MeteredNode, context: unknown): unknown {
    if (node.op === "rcall" && node.args[0] === "matches" && node.args[2].length === 1) {
      const text = evaluator.run(node.args[1], context);
      const pattern = evaluator.run(node.args[2][0] as MeteredNode, context);
      // Anything else is a mistake, which the library explains.
      if (typeof text === "string" && typeof pattern === "string") {
        return matchesPattern(pattern, text, budget);
      }
    }
    return node.evaluate?.(evaluator, node, context);
  }

  /** What comes out of data is no larger than the data; whoever compares or joins it reads all of it. */
  function sizeOf(value: unknown, reader: ASTNode["op"] | undefined): number {
    if (typeof value === "string") return value.length >> 4;
    if (typeof value !== "object" || value === null) return 0;
    if (reader !== undefined && READS_ALL.has(reader)) return deepSize(value, budget);
    return Array.isArray(value) ? value.length >> 2 : 0;
  }
}

const READS_ALL: ReadonlySet<ASTNode["op"]> = new Set(["==", "!=", "in", "call", "rcall"]);
const DEEP_MAX = 10_000;

/** Counted in slices, so that the budget ends the count too: lists of the same list have no end. */
function deepSize(value: object, budget: Budget): number {
  const pending: unknown[] = [value];
  let size = 0;
  while (pending.length > 0) {
    const next = pending.pop();
    size += typeof next === "string" ? 1 + (next.length >> 4) : 1;
    if (size > DEEP_MAX) {
      budget.spend(size);
      size = 0;
    }
    if (typeof next !== "object" || next === null) continue;
    const members =
      next instanceof Map ? next.values() : Array.isArray(next) ? next : Object.values(next);
    for (const member of members) pending.push(member);
  }
  return size;
}
