import assert from "node:assert/strict";
import { readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import { Failure } from "@exclave/core";
import { describeJournal } from "../testing/journal-contract.ts";
import { temporaryDirectory } from "../testing/temporary-directory.ts";
import { createSqliteJournal } from "./sqlite-journal.ts";

describeJournal("the SQLite journal", async (t) => {
  const path = join(await temporaryDirectory(t), "agent", "journal.db");
  const open = () => {
    const journal = createSqliteJournal({ path });
    t.after(() => journal.close());
    return journal;
  };
  return { journal: open(), reopen: open };
});

test("a commit that fails half-way leaves nothing", async (t) => {
  const journal = createSqliteJournal({ path: join(await temporaryDirectory(t), "journal.db") });
  t.after(() => journal.close());
  const body = { type: "alarm", at: 1, code: "c", because: "b" } as const;
  journal.commit([{ kind: "event", seq: 1, body }]);

  const failing = () =>
    journal.commit([
      { kind: "down_acked", seq: 5 },
      { kind: "event", seq: 1, body },
    ]);

  assert.throws(failing, Failure);
  assert.equal(journal.load().downAcked, 0);
  journal.commit([{ kind: "down_acked", seq: 1 }]);
  assert.equal(journal.load().downAcked, 1);
});

test("a full disk is a failure with that code, and the journal goes on when there is room", async (t) => {
  const path = join(await temporaryDirectory(t), "journal.db");
  const journal = createSqliteJournal({ path });
  t.after(() => journal.close());
  const value = "x".repeat(1_000_000);
  journal.commit([{ kind: "secret", name: "first", value: "kept" }]);

  // SQLite's own limit on pages answers as a disk without room does.
  const limit = new DatabaseSync(path);
  const pages = Number(limit.prepare("pragma page_count").get()?.page_count);
  limit.close();
  const small = createSqliteJournal({ path, pagesMax: pages + 10 });
  t.after(() => small.close());
  const failing = () => small.commit([{ kind: "secret", name: "second", value }]);

  assert.throws(failing, (reason) => reason instanceof Failure && reason.code === "disk_full");
  assert.equal(small.secret("second"), undefined);
  small.commit([{ kind: "secret", name: "third", value: "small" }]);
  assert.equal(small.secret("third"), "small");
});

test("is readable by its owner alone", async (t) => {
  const path = join(await temporaryDirectory(t), "journal.db");
  const journal = createSqliteJournal({ path });
  t.after(() => journal.close());

  assert.equal((await stat(path)).mode & 0o777, 0o600);
});

test("a file that is no journal is quarantined, and a new journal begins", async (t) => {
  const directory = await temporaryDirectory(t);
  const path = join(directory, "journal.db");
  const text = "this is no database, and long enough to be looked at as one by SQLite";
  await writeFile(path, text);
  const said: string[] = [];

  const journal = createSqliteJournal({ path, onDamaged: (because) => said.push(because) });
  t.after(() => journal.close());

  assert.equal(journal.load().fresh, true);
  assert.match(said.join(), /journal was damaged; it lies in .*journal\.db\.damaged-/);
  const aside = (await readdir(directory)).find((file) => file.includes("damaged"));
  assert.equal(await readFile(join(directory, aside ?? ""), "utf8"), text);
});

test("a journal with overwritten pages counts as lost, whichever page it is", async (t) => {
  const path = join(await temporaryDirectory(t), "journal.db");
  const written = createSqliteJournal({ path });
  const body = { type: "alarm", at: 1, code: "c", because: "b".repeat(20_000) } as const;
  written.commit([{ kind: "event", seq: 1, body }]);
  written.close();
  const bytes = await readFile(path);
  const PAGE = 4_096;

  for (let page = 0; page < bytes.length / PAGE; page++) {
    const spoilt = Buffer.from(bytes);
    spoilt.fill(0xa5, page * PAGE, (page + 1) * PAGE);
    await writeFile(path, spoilt);
    const journal = createSqliteJournal({ path });
    const { fresh } = journal.load();
    journal.commit([{ kind: "down_acked", seq: 1 }]);
    journal.close();

    assert.equal(fresh, true, `page ${page}`);
  }
});

test("a journal of a newer agent is not touched", async (t) => {
  const path = join(await temporaryDirectory(t), "journal.db");
  createSqliteJournal({ path }).close();
  const database = new DatabaseSync(path);
  database.exec("pragma user_version = 99");
  database.close();

  assert.throws(() => createSqliteJournal({ path }), /newer agent/);
});
