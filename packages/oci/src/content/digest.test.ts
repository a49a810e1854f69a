import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { collect } from "./digest.ts";

describe("collect", () => {
  test("keeps the bytes and not the pieces they came in", async () => {
    async function* sameBufferEachTime() {
      const piece = Buffer.alloc(1);
      for (const letter of "a manifest in pieces") {
        piece.write(letter);
        yield piece;
      }
    }

    assert.equal(
      Buffer.from(await collect(sameBufferEachTime())).toString(),
      "a manifest in pieces",
    );
  });

  test("takes as many bytes as it may, and not one more", async () => {
    async function* pieces(count: number) {
      for (let piece = 0; piece < count; piece++) yield Buffer.alloc(10);
    }

    assert.equal((await collect(pieces(3), 30)).length, 30);
    await assert.rejects(collect(pieces(4), 39), { code: "too_large" });
    assert.equal((await collect(pieces(0))).length, 0);
  });
});
