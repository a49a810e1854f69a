// Moves a stopped server's memory to another database: node migrate-main.ts --data DIR, with the address of the
// PostgreSQL database in EXCLAVE_DATABASE_URL. Says each table on stderr, and the end as one JSON line on stdout.

import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { asFailure, Failure } from "@exclave/core";
import { claimDataDirectory } from "./data-directory.ts";
import { moveToPostgres } from "./store/move/move-to-postgres.ts";

try {
  const { data } = parseArgs({ options: { data: { type: "string" } } }).values;
  const url = process.env["EXCLAVE_DATABASE_URL"];
  if (data === undefined || url === undefined) {
    throw new Failure(
      "invalid",
      "usage: migrate --data DIR, with EXCLAVE_DATABASE_URL in its environment",
    );
  }
  const directory = await claimDataDirectory(resolve(data));
  try {
    const move = await moveToPostgres({
      file: directory.database,
      url,
      now: Date.now,
      onTable: ({ name, rows }) => void process.stderr.write(`${name}: ${rows} rows\n`),
    });
    process.stdout.write(`${JSON.stringify(move)}\n`);
  } finally {
    directory.release();
  }
} catch (reason) {
  const failure = asFailure(reason);
  if (failure.code === "bug") console.error(reason);
  process.stderr.write(`migrate: ${failure.message}\n`);
  process.exitCode = failure.code === "invalid" ? 2 : 1;
}
