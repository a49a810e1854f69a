import assert from "node:assert/strict";
import { readdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { describe, test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { inspect } from "node:util";
import { syncDirectory } from "@exclave/machine";
import { createEarlySync } from "./early-sync.ts";

const MEBIBYTE = 1024 * 1024;

/** A file whose early syncs, and if told so its last one, end when the test says so. */
function slowFile({ isSlowToTheEnd = false } = {}) {
  const early: PromiseWithResolvers<void>[] = [];
  const last: PromiseWithResolvers<void>[] = [];
  return {
    early,
    last,
    datasync() {
      const made = Promise.withResolvers<void>();
      early.push(made);
      return made.promise;
    },
    sync() {
      const made = Promise.withResolvers<void>();
      last.push(made);
      if (!isSlowToTheEnd) made.resolve();
      return made.promise;
    },
  };
}

describe("an early sync", () => {
  test("sends every few megabytes, one after the other", async () => {
    const file = slowFile();
    const sync = createEarlySync();

    for (let size = 1; size <= 20; size++) sync.reached(size * MEBIBYTE, file);
    assert.equal(file.early.length, 1);
    file.early[0]?.resolve();
    await setImmediate();
    sync.reached(21 * MEBIBYTE, file);
    assert.equal(file.early.length, 2);
    file.early[1]?.resolve();

    await sync.finish(file);
    assert.equal(file.last.length, 1);
  });

  test("leaves a small file to the end", async () => {
    const file = slowFile();
    const sync = createEarlySync();
    sync.reached(MEBIBYTE, file);

    await sync.finish(file);

    assert.deepEqual([file.early.length, file.last.length], [0, 1]);
  });

  test("tells at the end what it met, though the last sync knows nothing of it", async () => {
    const file = slowFile();
    const sync = createEarlySync();
    sync.reached(8 * MEBIBYTE, file);
    file.early[0]?.reject(new Error("the disk lost a page"));

    await assert.rejects(sync.finish(file), /lost a page/);
  });

  test("is waited for at the end", async () => {
    const file = slowFile();
    const sync = createEarlySync();
    sync.reached(8 * MEBIBYTE, file);

    const finished = sync.finish(file);
    await setImmediate();
    assert.equal(file.last.length, 0);
    file.early[0]?.resolve();

    await finished;
    assert.equal(file.last.length, 1);
  });
});

describe("however many files there are, some of the system's file threads stay free", () => {
  test("of early syncs", async () => {
    const files = Array.from({ length: 6 }, () => slowFile());
    const syncs = files.map((file) => ({ file, sync: createEarlySync() }));

    for (const { file, sync } of syncs) sync.reached(8 * MEBIBYTE, file);

    assert.equal(files.flatMap(({ early }) => early).length, 3);
    for (const { early } of files) for (const { resolve } of early) resolve();
    await Promise.all(syncs.map(({ file, sync }) => sync.finish(file)));
  });

  test("of last syncs, which come in the order they were asked for", async () => {
    const files = Array.from({ length: 7 }, () => slowFile({ isSlowToTheEnd: true }));
    const begun = () => files.map(({ last }) => last.length).join("");

    const finished = files.map((file) => createEarlySync().finish(file));
    await setImmediate();

    assert.equal(begun(), "1110000");
    files[1]?.last[0]?.resolve();
    await finished[1];
    await setImmediate();
    assert.equal(begun(), "1111000");
    files[0]?.last[0]?.reject(new Error("the disk is gone"));
    await assert.rejects(finished[0] ?? Promise.resolve(), /gone/);
    await setImmediate();
    assert.equal(begun(), "1111100");
    for (const file of files.slice(2)) {
      file.last[0]?.resolve();
      await setImmediate();
    }
    await Promise.all(finished.slice(1));
    assert.equal(begun(), "1111111");
  });

  test("of directories' syncs, which wait with all the others", async () => {
    const files = Array.from({ length: 3 }, () => slowFile({ isSlowToTheEnd: true }));
    const finished = files.map((file) => createEarlySync().finish(file));

    const directory = syncDirectory(tmpdir());
    // Reading goes on meanwhile, and takes longer than the sync would have.
    for (let look = 0; look < 50; look++) await readdir(tmpdir());

    assert.match(inspect(directory), /pending/);
    for (const { last } of files) last[0]?.resolve();
    await directory;
    await Promise.all(finished);
  });
});
