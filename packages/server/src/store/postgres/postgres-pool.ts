// Connections to a PostgreSQL database, for Kysely. What goes wrong with one is a sentence for a person, and
// never holds the address, which may hold a password.

import { Failure } from "@exclave/core";
import { type Dialect, PostgresDialect, type PostgresPool } from "kysely";
import { DatabaseError, Pool, types } from "pg";

const CONNECTIONS_MAX = 10;
const CONNECT_MS_MAX = 10_000;
const STATEMENT_MS_MAX = 60_000;
/** A server that stands still in the middle of a transaction gives its turn up. */
const IDLE_IN_TRANSACTION_MS_MAX = 30_000;

/** The type of counts, sequences and times: all of them fit a number. */
const BIGINT = 20;

export function createPostgresDialect(url: string): Dialect {
  const pool = new Pool({
    connectionString: url,
    application_name: "exclave",
    max: CONNECTIONS_MAX,
    connectionTimeoutMillis: CONNECT_MS_MAX,
    statement_timeout: STATEMENT_MS_MAX,
    idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_MS_MAX,
    keepAlive: true,
    types: {
      getTypeParser: ((oid: number, format?: "text") =>
        oid === BIGINT ? Number : types.getTypeParser(oid, format)) as typeof types.getTypeParser,
    },
  });
  // One that breaks while nobody uses it is replaced when it is needed.
  pool.on("error", () => undefined);
  return new PostgresDialect({ pool: withSentences(pool) });
}

function withSentences(pool: Pool): PostgresPool {
  return {
    options: pool.options,
    async connect() {
      const client = await pool.connect().catch((cause: unknown) => {
        throw unreached(cause);
      });
      let broken: Error | undefined;
      const onError = (reason: Error) => (broken = reason);
      client.on("error", onError);
      return {
        // Kysely's own cursors are not used: every query is a text with values.
        query: (async (text: string, values: readonly unknown[]) => {
          try {
            return await client.query(text, [...values]);
          } catch (cause) {
            if (!isLost(cause)) throw cause;
            broken ??= cause as Error;
            throw unreached(cause);
          }
        }) as never,
        release() {
          client.off("error", onError);
          client.release(broken);
        },
      };
    },
    end: () => pool.end(),
  };
}

/** Connections that ended, servers that stop, and too many clients; not statements that are wrong. */
function isLost(cause: unknown): boolean {
  if (!(cause instanceof DatabaseError)) return true;
  const code = cause.code ?? "";
  return code.startsWith("08") || code.startsWith("57P") || code === "53300" || code === "25P03";
}

function unreached(cause: unknown): Failure {
  const { code, message } = cause as { code?: string; message?: string };
  const why = cause instanceof DatabaseError ? message : (code ?? message);
  return new Failure(
    "unavailable",
    `the database cannot be reached (${why ?? "no reason given"}); check EXCLAVE_DATABASE_URL and that PostgreSQL runs there`,
    { cause },
  );
}
