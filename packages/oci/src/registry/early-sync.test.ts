import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { syncEarly } from "./early-sync.ts";

const MEBIBYTE = 1024 * 1024;

/** A file whose early syncs end when the test says so. */
function slowFile() {
  const early: PromiseWithResolvers<void>[] = [];
  let syncs = 0;
  return {
    early,
    syncs: () => syncs,
    datasync() {
      const made = Promise.withResolvers<void>();
      early.push(made);
      return made.promise;
    },
    async sync() {
      syncs += 1;
    },
  };
}

describe("syncEarly", () => {
  test("sends every few megabytes, one after the other", async () => {
    const file = slowFile();
    const sync = syncEarly(file);

    for (let size = 1; size <= 20; size++) sync.reached(size * MEBIBYTE);
    assert.equal(file.early.length, 1);
    file.early[0]?.resolve();
    await setImmediate();
    sync.reached(21 * MEBIBYTE);
    assert.equal(file.early.length, 2);
    file.early[1]?.resolve();

    await sync.finish();
    assert.equal(file.syncs(), 1);
  });

  test("a small file is synced once, at the end", async () => {
    const file = slowFile();
    const sync = syncEarly(file);
    sync.reached(MEBIBYTE);

    await sync.finish();

    assert.deepEqual([file.early.length, file.syncs()], [0, 1]);
  });

  test("what an early sync met, the end tells, though the last sync knows nothing of it", async () => {
    const file = slowFile();
    const sync = syncEarly(file);
    sync.reached(8 * MEBIBYTE);
    file.early[0]?.reject(new Error("the disk lost a page"));

    await assert.rejects(sync.finish(), /lost a page/);
  });

  test("the end waits for a sync under way", async () => {
    const file = slowFile();
    const sync = syncEarly(file);
    sync.reached(8 * MEBIBYTE);

    const finished = sync.finish();
    await setImmediate();
    assert.equal(file.syncs(), 0);
    file.early[0]?.resolve();

    await finished;
    assert.equal(file.syncs(), 1);
  });

  test("however many files there are, some of the system's file threads stay free", async () => {
    const files = Array.from({ length: 6 }, slowFile);
    const syncs = files.map(syncEarly);

    for (const sync of syncs) sync.reached(8 * MEBIBYTE);

    assert.equal(files.flatMap(({ early }) => early).length, 3);
    for (const { early } of files) for (const { resolve } of early) resolve();
    await Promise.all(syncs.map((sync) => sync.finish()));
  });
});
