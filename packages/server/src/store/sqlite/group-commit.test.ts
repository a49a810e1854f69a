import assert from "node:assert/strict";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { type TestContext, test } from "node:test";
import { jobRow } from "../../testing/rows.ts";
import { temporaryDirectory } from "../../testing/temporary-directory.ts";
import { createGroupCommit, type GroupCommit } from "./group-commit.ts";
import { openDatabase } from "./sqlite-dialect.ts";
import { openSqliteStore } from "./sqlite-store.ts";

interface Notes {
  readonly database: DatabaseSync;
  readonly group: GroupCommit;
  readonly commits: () => number;
  readonly put: (note: string) => Promise<void>;
  readonly kept: () => unknown[];
}

/** `turnMs` is how much later it is at each look at the time. */
async function notes(t: TestContext, turnMs = 0): Promise<Notes> {
  const database = openDatabase(join(await temporaryDirectory(t), "notes.db"));
  t.after(() => database.close());
  database.exec("CREATE TABLE notes (text TEXT UNIQUE)");
  const insert = database.prepare("INSERT INTO notes VALUES (?)");
  const all = database.prepare("SELECT text FROM notes ORDER BY rowid");
  const exec = t.mock.method(database, "exec");
  let now = 0;
  const elapsedMs = () => {
    now += turnMs;
    return now;
  };
  return {
    database,
    group: createGroupCommit(database, { elapsedMs }),
    commits: () => exec.mock.calls.filter(({ arguments: [sql] }) => sql === "COMMIT").length,
    put: async (note) => void insert.run(note),
    kept: () => all.all().map(({ text }) => text),
  };
}

const LETTERS = ["a", "b", "c", "d", "e"];

test("transactions that come at once are one sync of the disk", async (t) => {
  const { group, commits, put, kept } = await notes(t);

  const ends = await Promise.all(
    LETTERS.map((letter) => group.transaction(() => put(letter).then(() => letter))),
  );

  assert.deepEqual(ends, LETTERS);
  assert.equal(commits(), 1);
  assert.deepEqual(kept(), LETTERS);
});

test("a group that takes long ends, and the others are the next", async (t) => {
  const { group, commits, put, kept } = await notes(t, 5);

  await Promise.all(LETTERS.map((letter) => group.transaction(() => put(letter))));

  assert.equal(commits(), 3, "two in each");
  assert.deepEqual(kept(), LETTERS);
});

test("one that fails takes nothing of its group with it, and leaves nothing", async (t) => {
  const { group, put, kept } = await notes(t);

  const ends = await Promise.allSettled(
    LETTERS.map((letter) =>
      group.transaction(async () => {
        await put(letter);
        if (letter === "c") await put("a");
      }),
    ),
  );

  assert.deepEqual(
    ends.map(({ status }) => status),
    ["fulfilled", "fulfilled", "rejected", "fulfilled", "fulfilled"],
  );
  assert.deepEqual(kept(), ["a", "b", "d", "e"]);
});

test("when the commit fails, all of the group fail and nothing of it happened", async (t) => {
  const { database, group, put, kept } = await notes(t);
  const exec = database.exec.bind(database);
  const failing = t.mock.method(database, "exec", (sql: string) => {
    if (sql === "COMMIT") throw new Error("database or disk is full");
    exec(sql);
  });

  const ends = await Promise.allSettled(
    LETTERS.map((letter) => group.transaction(() => put(letter))),
  );
  failing.mock.restore();
  await group.transaction(() => put("f"));

  assert.deepEqual(new Set(ends.map(({ status }) => status)), new Set(["rejected"]));
  assert.deepEqual(kept(), ["f"]);
});

test("a statement that ends the whole transaction fails all of its group", async (t) => {
  const { database, group, put, kept } = await notes(t);

  const ends = await Promise.allSettled([
    group.transaction(() => put("a")),
    group.transaction(async () => {
      database.exec("ROLLBACK");
      throw new Error("database or disk is full");
    }),
  ]);
  await group.transaction(() => put("b"));

  assert.deepEqual(
    ends.map(({ status }) => status),
    ["rejected", "rejected"],
  );
  assert.deepEqual(kept(), ["b"]);
});

test("nobody is told of a transaction before its group is durable", async (t) => {
  const { group, put, commits } = await notes(t);
  const isUnderWay = Promise.withResolvers<void>();
  const slow = Promise.withResolvers<void>();
  t.after(() => slow.resolve());

  const first = group.transaction(() => put("a")).then(commits);
  const second = group.transaction(async () => {
    isUnderWay.resolve();
    await slow.promise;
  });
  await isUnderWay.promise;
  const early = await Promise.race([first, new Promise((resolve) => setImmediate(resolve))]);
  slow.resolve();
  await second;

  assert.equal(early, undefined);
  assert.equal(await first, 1, "commits when it was told");
});

test("what is under way is over before the store is closed", async (t) => {
  const file = join(await temporaryDirectory(t), "exclave.db");
  const store = openSqliteStore(file);
  const put = store.transaction((tx) => tx.jobs.put(jobRow()));

  await store.close();
  await put;

  const again = openSqliteStore(file);
  t.after(() => again.close());
  assert.equal((await again.read.jobs.all()).length, 1);
});
