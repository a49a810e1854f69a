import assert from "node:assert/strict";
import { test } from "node:test";
import { chunkName, coverOf, type LogChunk, parseChunk, planMerge, sizeOf } from "./log-chunks.ts";

const chunk = (start: number, end: number, keptBytes = end - start): LogChunk => ({
  start,
  end,
  keptBytes,
});

test("a piece is named by where it begins and ends, and names sort as offsets do", () => {
  const one = chunk(9, 10);
  const other = chunk(10, 1_000_000);

  assert.deepEqual(parseChunk(chunkName(one), 1), one);
  assert.ok(chunkName(one) < chunkName(other));
  assert.equal(parseChunk("draft", 1), undefined);
  assert.equal(parseChunk(chunkName(chunk(5, 5)), 0), undefined);
});

test("reads the fewest pieces that leave no gap, whichever overlap", () => {
  const merged = chunk(0, 30);
  const late = chunk(30, 35);
  const longer = chunk(30, 50);

  const cover = coverOf([chunk(10, 20), merged, late, chunk(0, 10), longer, chunk(20, 30)]);

  assert.deepEqual(cover, [merged, longer]);
  assert.equal(sizeOf(cover), 50);
});

test("ends at a gap, and has nothing without a beginning", () => {
  assert.equal(sizeOf(coverOf([chunk(0, 10), chunk(11, 20)])), 10);
  assert.equal(sizeOf(coverOf([chunk(1, 20)])), 0);
});

test("merges small pieces at the end, and leaves a large one before them alone", () => {
  const large = chunk(0, 1_000_000);
  const small = Array.from({ length: 32 }, (_, n) => chunk(1_000_000 + n, 1_000_001 + n));

  assert.deepEqual(planMerge([large, ...small]), small);
  assert.deepEqual(planMerge([large, ...small.slice(1)]), []);
});

test("keeps pieces few and writes each byte again a few times, however small they come", () => {
  for (const bytes of [1, 100, 5_000, 256 * 1024]) {
    let cover: LogChunk[] = [];
    let written = 0;
    let end = 0;
    let most = 0;
    const appends = Math.min(20_000, Math.ceil((64 * 1024 * 1024) / bytes));
    for (let n = 0; n < appends; n++) {
      cover.push(chunk(end, end + bytes));
      end += bytes;
      const chosen = planMerge(cover);
      if (chosen.length > 0) {
        const one = chunk(chosen[0]?.start ?? 0, end);
        written += one.keptBytes;
        cover = [...cover.slice(0, -chosen.length), one];
      }
      most = Math.max(most, cover.length);
    }

    assert.equal(sizeOf(coverOf(cover)), end);
    assert.ok(most < 250, `${most} pieces of ${bytes} bytes`);
    assert.ok(written <= end * 6, `${bytes}: ${written} bytes written again for ${end}`);
  }
});
