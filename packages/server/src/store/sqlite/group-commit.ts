// Runs transactions one after the other, and commits those that came at once together: to sync a disk takes as long
// for one as for fifty. Each is still all or nothing by itself, and nobody is told of one before it is durable.

import type { DatabaseSync, StatementSync } from "node:sqlite";
import { setImmediate as nextTurn } from "node:timers/promises";

/** Whoever comes later waits for the next group: sockets are read in between. */
const GROUP_MS_MAX = 8;

interface Waiting {
  readonly run: () => Promise<unknown>;
  readonly resolve: (result: unknown) => void;
  readonly reject: (reason: unknown) => void;
}

export interface GroupCommit {
  transaction<Result>(work: () => Promise<Result>): Promise<Result>;
  /** Resolves when nothing is under way any more. */
  settled(): Promise<void>;
}

export interface GroupCommitOptions {
  readonly elapsedMs?: () => number;
  /** Told when something that was written is undone. */
  readonly onRollback?: () => void;
  /** Told before a group begins, when another process wrote since the last. */
  readonly onOthersWrite?: () => void;
}

export function createGroupCommit(
  database: DatabaseSync,
  { elapsedMs = () => performance.now(), onRollback, onOthersWrite }: GroupCommitOptions = {},
): GroupCommit {
  const waiting: Waiting[] = [];
  const [save, release, undo] = ["SAVEPOINT one", "RELEASE one", "ROLLBACK TO one"].map((sql) =>
    database.prepare(sql),
  ) as [StatementSync, StatementSync, StatementSync];
  const dataVersion = database.prepare("PRAGMA data_version");
  let versionSeen: unknown;
  let working: Promise<void> | undefined;

  return { transaction, settled };

  function transaction<Result>(work: () => Promise<Result>): Promise<Result> {
    return new Promise((resolve, reject) => {
      waiting.push({ run: work, resolve: (result) => resolve(result as Result), reject });
      working ??= commitGroups();
    });
  }

  async function settled(): Promise<void> {
    await working;
  }

  async function commitGroups(): Promise<void> {
    while (waiting.length > 0) {
      // Everybody whose turn it is now, every socket that is read, joins this group.
      await nextTurn();
      await commitGroup();
    }
    working = undefined;
  }

  async function commitGroup(): Promise<void> {
    const taken: Waiting[] = [];
    try {
      database.exec("BEGIN IMMEDIATE");
      noticeOthers();
      const settle = await runGroup(taken);
      database.exec("COMMIT");
      for (const tell of settle) tell();
    } catch (reason) {
      // Nothing of the whole group happened. A failed statement may already have ended the transaction.
      if (database.isTransaction) database.exec("ROLLBACK");
      onRollback?.();
      if (taken.length === 0) taken.push(...waiting.splice(0));
      for (const { reject } of taken) reject(reason);
    }
  }

  /** Inside the transaction: from now on nobody else writes. */
  function noticeOthers(): void {
    const version = dataVersion.get()?.["data_version"];
    if (versionSeen !== undefined && version !== versionSeen) onOthersWrite?.();
    versionSeen = version;
  }

  async function runGroup(taken: Waiting[]): Promise<(() => void)[]> {
    const began = elapsedMs();
    const settle: (() => void)[] = [];
    for (let next = waiting.shift(); next; next = waiting.shift()) {
      taken.push(next);
      settle.push(await runOne(next));
      if (elapsedMs() - began > GROUP_MS_MAX) break;
    }
    return settle;
  }

  async function runOne({ run, resolve, reject }: Waiting): Promise<() => void> {
    save.run();
    try {
      const result = await run();
      release.run();
      return () => resolve(result);
    } catch (reason) {
      if (!database.isTransaction) throw reason;
      undo.run();
      onRollback?.();
      release.run();
      return () => reject(reason);
    }
  }
}
