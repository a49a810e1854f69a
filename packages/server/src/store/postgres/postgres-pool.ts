// Connections to a PostgreSQL database, for Kysely. What goes wrong with one is a sentence for a person, and
// never holds the address, which may hold a password.

import { Failure } from "@exclave/core";
import { type Dialect, PostgresDialect, type PostgresPool } from "kysely";
import { DatabaseError, Pool, type PoolClient, types } from "pg";
import { ConnectionCut } from "./again-rules.ts";

const CONNECTIONS_MAX = 8;
const CONNECT_MS_MAX = 10_000;
const STATEMENT_MS_MAX = 60_000;
/** A server that stands still in the middle of a transaction gives its turn up: others wait for the rows it holds. */
const IDLE_IN_TRANSACTION_MS_MAX = 10_000;

/** The type of counts, sequences and times: all of them fit a number. */
const BIGINT = 20;

export interface PostgresDialectOptions {
  readonly connectionsMax?: number;
  /** Each query stands alone and changes nothing: one that was cut off is asked once more, elsewhere. */
  readonly isReader?: boolean;
}

/** What every connection of a server is opened with. */
export function connectionSettings(url: string) {
  return {
    connectionString: url,
    application_name: "exclave",
    connectionTimeoutMillis: CONNECT_MS_MAX,
    statement_timeout: STATEMENT_MS_MAX,
    keepAlive: true,
    types: {
      getTypeParser: ((oid: number, format?: "text") =>
        oid === BIGINT ? Number : types.getTypeParser(oid, format)) as typeof types.getTypeParser,
    },
  };
}

export function createPostgresDialect(
  url: string,
  { connectionsMax = CONNECTIONS_MAX, isReader = false }: PostgresDialectOptions = {},
): Dialect {
  const pool = new Pool({
    ...connectionSettings(url),
    max: connectionsMax,
    idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_MS_MAX,
  });
  // One that breaks while nobody uses it is replaced when it is needed.
  pool.on("error", () => undefined);
  // Also while one is on its way out, when nobody else listens any more.
  pool.on("connect", (client) => void client.on("error", () => undefined));
  return new PostgresDialect({ pool: withSentences(pool, isReader) });
}

function withSentences(pool: Pool, isReader: boolean): PostgresPool {
  return {
    options: pool.options,
    async connect() {
      let lent = await lend(pool);
      return {
        // Kysely's own cursors are not used: every query is a text with values.
        query: (async (text: string, values: readonly unknown[]) => {
          try {
            return await lent.query(text, values);
          } catch (reason) {
            if (!isReader || !lent.isBroken()) throw reason;
            lent.release();
            lent = await lend(pool);
            return lent.query(text, values);
          }
        }) as never,
        release: () => lent.release(),
      };
    },
    end: () => pool.end(),
  };
}

interface Lent {
  query(text: string, values: readonly unknown[]): Promise<unknown>;
  isBroken(): boolean;
  release(): void;
}

async function lend(pool: Pool): Promise<Lent> {
  const client: PoolClient = await pool.connect().catch((cause: unknown) => {
    throw unreached(cause);
  });
  let broken: Error | undefined;
  const onError = (reason: Error) => (broken ??= reason);
  client.on("error", onError);
  return {
    async query(text, values) {
      try {
        const result: unknown = await client.query(text, [...values]);
        // Of several statements in one text the last one's answer counts.
        return Array.isArray(result) ? result.at(-1) : result;
      } catch (cause) {
        if (!isLost(cause)) throw cause;
        broken ??= cause as Error;
        throw unreached(cause);
      }
    },
    isBroken: () => broken !== undefined,
    release() {
      client.off("error", onError);
      client.release(broken);
    },
  };
}

/** Connections that ended, servers that stop, and too many clients; not statements that are wrong. */
function isLost(cause: unknown): boolean {
  if (!(cause instanceof DatabaseError)) return true;
  const code = cause.code ?? "";
  return code.startsWith("08") || code.startsWith("57P") || code === "53300" || code === "25P03";
}

export function unreached(cause: unknown): Failure {
  const { code, message } = cause as { code?: string; message?: string };
  const why = cause instanceof DatabaseError ? message : (code ?? message);
  return new Failure(
    "unavailable",
    `the database cannot be reached (${why ?? "no reason given"}); check EXCLAVE_DATABASE_URL and that PostgreSQL runs there`,
    { cause: new ConnectionCut(why, { cause }) },
  );
}
