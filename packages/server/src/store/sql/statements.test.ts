import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import { Kysely } from "kysely";
import { createSqliteDialect } from "../sqlite/sqlite-dialect.ts";
import { createStatements } from "./statements.ts";

interface Tables {
  readonly things: { readonly name: string; readonly size: number };
}

test("a query is built once, and answers for the values of each run", async (t) => {
  const { db, statements } = await withThings(t);
  let built = 0;
  const sizeOf = async (name: string) => {
    const { rows } = await statements.run<{ size: number }>("by name", [name], () => {
      built++;
      return db.selectFrom("things").select("size").where("name", "=", name);
    });
    return rows.map(({ size }) => size);
  };

  assert.deepEqual([await sizeOf("a"), await sizeOf("b")], [[1], [2]]);
  assert.equal(built, 1);
});

test("values in another order than the query names them are refused", async (t) => {
  const { db, statements } = await withThings(t);

  const swapped = async () =>
    statements.run("both", [1, "a"], () =>
      db.selectFrom("things").selectAll().where("name", "=", "a").where("size", "=", 1),
    );

  await assert.rejects(swapped, /not in the order/);
});

async function withThings(t: { after(work: () => Promise<void>): void }) {
  const database = new DatabaseSync(":memory:");
  database.exec("CREATE TABLE things (name TEXT, size INTEGER)");
  database.exec("INSERT INTO things VALUES ('a', 1), ('b', 2)");
  const db = new Kysely<Tables>({ dialect: createSqliteDialect(database) });
  t.after(() => db.destroy());
  return { db, statements: createStatements(db, new Map()) };
}
