// Queries that are built once and run with other values each time: to build and compile one costs more than SQLite
// takes to answer it.

import { Failure } from "@exclave/core";
import type { CompiledQuery, Kysely, QueryResult } from "kysely";

/** By shape: everything about a query but its values. Outlives the transactions that share it. */
export type CompiledQueries = Map<string, CompiledQuery>;

interface Buildable {
  compile(): CompiledQuery;
}

export interface Statements {
  /** `values` are those of the query, in the order in which it names them. */
  run<Row>(
    shape: string,
    values: readonly unknown[],
    build: () => Buildable,
  ): Promise<QueryResult<Row>>;
}

/** Runs a compiled query at once, where a database is in this process. */
export type Execute = <Row>(query: CompiledQuery) => QueryResult<Row>;

/** `execute` runs queries instead of `db`, whose way to the same connection is a dozen promises long. */
export function createStatements<Database>(
  db: Kysely<Database>,
  compiled: CompiledQueries,
  execute?: Execute,
): Statements {
  return {
    async run<Row>(shape: string, values: readonly unknown[], build: () => Buildable) {
      let query = compiled.get(shape);
      if (!query) {
        query = build().compile();
        if (!query.parameters.every((value, n) => value === values[n])) {
          throw new Failure("bug", `the values of "${shape}" are not in the order it names them`);
        }
        compiled.set(shape, query);
      }
      const given = { ...query, parameters: values };
      return execute ? execute<Row>(given) : db.executeQuery<Row>(given);
    },
  };
}
