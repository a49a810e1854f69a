// Our dialect of CEL: the language as it is, lists and maps of mixed values as configuration has
// them, and arithmetic between whole numbers (CEL's int) and JSON's numbers (CEL's double).

import { Environment } from "@marcbachmann/cel-js";
import { EXPRESSION_DEPTH_MAX, EXPRESSION_LIST_MAX, EXPRESSION_NODES_MAX } from "../limits.ts";

export const SCOPE_NAMES = ["install", "inputs", "secrets", "sandbox", "components"] as const;
export type ScopeName = (typeof SCOPE_NAMES)[number];

/** Only parses: which names exist is for the checks to say, with better words. */
export const celParser = createDialect(true);

export function createDialect(unlistedVariablesAreDyn: boolean): Environment {
  const dialect = new Environment({
    unlistedVariablesAreDyn,
    homogeneousAggregateLiterals: false,
    limits: {
      maxAstNodes: EXPRESSION_NODES_MAX,
      maxDepth: EXPRESSION_DEPTH_MAX,
      maxListElements: EXPRESSION_LIST_MAX,
    },
  });
  const mixed: Record<string, (left: number, right: number) => number> = {
    "+": (left, right) => left + right,
    "-": (left, right) => left - right,
    "*": (left, right) => left * right,
    "/": (left, right) => left / right,
  };
  for (const [operator, apply] of Object.entries(mixed)) {
    const handler = (left: number | bigint, right: number | bigint) =>
      apply(Number(left), Number(right));
    dialect.registerOperator(`double ${operator} int`, handler);
    dialect.registerOperator(`int ${operator} double`, handler);
  }
  return dialect;
}
