import assert from "node:assert/strict";
import { chmod, mkdir, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import { makePrivate, privateDatabase } from "./private-files.ts";
import { temporaryDirectory } from "./testing/temporary-directory.ts";

const modeOf = async (path: string) => ((await stat(path)).mode & 0o777).toString(8);

test("what was open to others is closed, at any depth; programs stay programs", async (t) => {
  const root = await temporaryDirectory(t);
  const directory = join(root, "keys");
  const deep = join(directory, "old");
  await mkdir(deep, { recursive: true });
  await writeFile(join(deep, "key.pem"), "secret");
  await writeFile(join(directory, "tool"), "#!");
  await writeFile(join(root, "elsewhere"), "not ours");
  await symlink(join(root, "elsewhere"), join(directory, "link"));
  for (const path of [directory, deep, join(directory, "tool")]) await chmod(path, 0o777);
  for (const path of [join(deep, "key.pem"), join(root, "elsewhere")]) await chmod(path, 0o666);

  await makePrivate(directory);

  assert.equal(await modeOf(directory), "700");
  assert.equal(await modeOf(deep), "700");
  assert.equal(await modeOf(join(deep, "key.pem")), "600");
  assert.equal(await modeOf(join(directory, "tool")), "700");
  assert.equal(await modeOf(join(root, "elsewhere")), "666");
});

test("a database is its owner's alone with what lies beside it, also one that was not", async (t) => {
  const file = join(await temporaryDirectory(t), "some.db");
  const before = process.umask(0);
  t.after(() => process.umask(before));
  const open = () => {
    const database = new DatabaseSync(file);
    t.after(() => database.isOpen && database.close());
    database.exec(
      "pragma journal_mode = wal; create table if not exists a (b); insert into a values (1)",
    );
    return database;
  };
  open();
  for (const ending of ["", "-wal", "-shm"]) assert.equal(await modeOf(file + ending), "644");

  privateDatabase(file);
  open();

  for (const ending of ["", "-wal", "-shm"]) assert.equal(await modeOf(file + ending), "600");
});
