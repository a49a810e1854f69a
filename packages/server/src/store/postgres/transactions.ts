// Transactions that run beside those of other servers, as if one came after the other. PostgreSQL refuses what could
// not have happened so, and the work of the one that was refused runs again; after a few times it runs alone. A
// commit whose answer was cut off is looked up, so that nobody is told of a failure that was none.

import { setTimeout as sleep } from "node:timers/promises";
import { Failure } from "@exclave/core";
import { type Kysely, sql } from "kysely";
import type { Database } from "../sql/database.ts";
import { decideAgain, type Mishap, mishapOf } from "./again-rules.ts";

/** Fewer than there are connections: others wait here, and hold none. */
const AT_ONCE_MAX = 6;
const LOOK_UP_MS = [50, 100, 200, 400, 800, 1_600, 3_200];

/**
 * Whoever works beside others shares this lock, whoever wants to be alone has it. Tables this small are read from
 * end to end, which would count as having read all rows; by an index it counts as the rows that were asked for.
 */
const begin = (isAlone: boolean, member: string | undefined) =>
  `LOCK TABLE turn IN ${isAlone ? "ACCESS EXCLUSIVE" : "ROW SHARE"} MODE;
   SET LOCAL enable_seqscan = off;
   SELECT pg_current_xact_id()::text AS id, epoch, ${isMember(member)} AS "isMember" FROM turn`;

/** The row of a server that others took for dead is gone. Whoever is no server has none. */
function isMember(id: string | undefined): string {
  if (id === undefined) return "true";
  if (!/^[0-9a-f-]{36}$/.test(id)) throw new Failure("bug", `${id} is not the name of a server`);
  return `EXISTS (SELECT FROM servers WHERE id = '${id}')`;
}

export interface Transactions {
  run<Result>(work: (connection: Kysely<Database>) => Promise<Result>): Promise<Result>;
}

export interface Fence {
  /** The one the server began with: it rises when what comes after cannot be beside what was before. */
  readonly epoch: number;
  /** What the servers that share the database know this one by; nothing for a program that is none of them. */
  readonly member?: (() => string | undefined) | undefined;
}

export function createTransactions(db: Kysely<Database>, fence: Fence): Transactions {
  const takeTurn = createTurns(AT_ONCE_MAX);

  return {
    async run(work) {
      const leave = await takeTurn();
      try {
        return await runUntilDone(work);
      } finally {
        leave();
      }
    },
  };

  async function runUntilDone<Result>(
    work: (connection: Kysely<Database>) => Promise<Result>,
  ): Promise<Result> {
    let isAlone = false;
    for (let attempt = 1; ; attempt++) {
      const end = await runOnce(db, work, { isAlone, ...fence });
      if (end.kind === "committed") return end.result;
      const again = decideAgain(end.mishap, attempt, Math.random());
      if (!again) throw end.reason;
      isAlone = again.isAlone;
      await sleep(again.pauseMs);
    }
  }
}

interface Begun {
  readonly id: string;
  readonly epoch: number;
  readonly isMember: boolean;
}

const REPLACED =
  "this database belongs to servers that this one cannot be beside; stop it, and start it in their version";
const TAKEN_FOR_DEAD =
  "the other servers took this one for dead, so it writes nothing until it has begun anew; try again in a moment";

type End<Result> =
  | { readonly kind: "committed"; readonly result: Result }
  | { readonly kind: "undone"; readonly mishap: Mishap; readonly reason: unknown };

async function runOnce<Result>(
  db: Kysely<Database>,
  work: (connection: Kysely<Database>) => Promise<Result>,
  { isAlone, epoch, member }: Fence & { readonly isAlone: boolean },
): Promise<End<Result>> {
  let committing: { readonly id: string; readonly result: Result } | undefined;
  try {
    return await db.connection().execute(async (connection) => {
      await sql.raw("BEGIN ISOLATION LEVEL SERIALIZABLE").execute(connection);
      try {
        const { rows } = await sql.raw<Begun>(begin(isAlone, member?.())).execute(connection);
        const [begun] = rows;
        if (begun?.epoch !== epoch) throw new Failure("conflict", REPLACED);
        if (!begun.isMember) throw new Failure("unavailable", TAKEN_FOR_DEAD);
        const result = await work(connection);
        committing = { id: begun.id, result };
        await sql.raw("COMMIT").execute(connection);
        return { kind: "committed", result };
      } catch (reason) {
        // On a connection that is gone there is nothing left to undo.
        await sql
          .raw("ROLLBACK")
          .execute(connection)
          .catch(() => undefined);
        throw reason;
      }
    });
  } catch (reason) {
    const mishap = mishapOf(reason);
    if (mishap === undefined) throw reason;
    if (mishap === "cut" && committing && (await isCommitted(db, committing.id))) {
      return { kind: "committed", result: committing.result };
    }
    return { kind: "undone", mishap, reason };
  }
}

/** What became of a transaction whose connection ended at its commit. */
async function isCommitted(db: Kysely<Database>, id: string): Promise<boolean> {
  let cause: unknown;
  for (const pauseMs of LOOK_UP_MS) {
    try {
      const { rows } = await sql<{ status: string | null }>`
        SELECT pg_xact_status(${id}::xid8) AS status`.execute(db);
      const status = rows[0]?.status;
      if (status === "committed") return true;
      if (status === "aborted") return false;
    } catch (reason) {
      cause = reason;
    }
    await sleep(pauseMs);
  }
  throw new Failure(
    "unavailable",
    "the database was cut off at a commit and did not come back: whether it was kept is not known",
    { cause },
  );
}

/** So many at once, in the order they came. */
function createTurns(most: number): () => Promise<() => void> {
  const waiting: (() => void)[] = [];
  let taken = 0;

  return async () => {
    if (taken >= most) await new Promise<void>((resolve) => waiting.push(resolve));
    else taken++;
    return () => {
      // Handed on as it is, so that nobody who comes now gets in between.
      const next = waiting.shift();
      if (next) next();
      else taken--;
    };
  };
}
