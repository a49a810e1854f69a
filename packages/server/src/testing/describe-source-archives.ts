// What every keeper of source archives promises, as tests.

import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { describe, type TestContext, test } from "node:test";
import { Digest } from "@exclave/core";
import type { SourceArchives } from "../content/source-archives.ts";

export interface SourceWorld {
  readonly sources: SourceArchives;
  /** How much there is of archives that were refused. */
  readonly leftBehind: () => Promise<number>;
}

export function describeSourceArchives(
  name: string,
  create: (t: TestContext) => Promise<SourceWorld>,
): void {
  describe(`${name} keep the contract of source archives`, () => {
    test("gives back what was received, however it came in pieces", async (t) => {
      const { sources } = await create(t);
      const bytes = randomBytes(19 * 1024 * 1024);

      assert.equal(await sources.receive(digestOf(bytes), pieces(bytes)), bytes.length);

      const found = await sources.open(digestOf(bytes));
      const chunks: Buffer[] = [];
      for await (const chunk of found?.bytes ?? []) chunks.push(chunk as Buffer);
      assert.equal(found?.sizeBytes, bytes.length);
      assert.ok(Buffer.concat(chunks).equals(bytes));
    });

    test("takes the same archive again", async (t) => {
      const { sources } = await create(t);
      const bytes = randomBytes(100);

      await sources.receive(digestOf(bytes), pieces(bytes));
      await sources.receive(digestOf(bytes), pieces(bytes));

      assert.equal((await sources.open(digestOf(bytes)))?.sizeBytes, 100);
    });

    test("has none that nobody sent", async (t) => {
      const { sources } = await create(t);

      assert.equal(await sources.open(digestOf(randomBytes(8))), undefined);
    });

    test("refuses bytes that are not what the digest says, and keeps nothing of them", async (t) => {
      const { sources, leftBehind } = await create(t);
      const bytes = randomBytes(9 * 1024 * 1024);
      const other = digestOf(randomBytes(8));

      await assert.rejects(
        sources.receive(other, pieces(bytes)),
        /the bytes that came are sha256:/,
      );

      assert.equal(await sources.open(other), undefined);
      assert.equal(await leftBehind(), 0);
    });

    test("keeps nothing of an archive whose sender went away", async (t) => {
      const { sources, leftBehind } = await create(t);
      const bytes = randomBytes(18 * 1024 * 1024);

      await assert.rejects(sources.receive(digestOf(bytes), brokenOff(bytes)), /went away/);

      assert.equal(await sources.open(digestOf(bytes)), undefined);
      assert.equal(await leftBehind(), 0);
    });
  });
}

const PIECE_BYTES = 1_000_000;

async function* pieces(bytes: Buffer): AsyncIterable<Buffer> {
  for (let at = 0; at < bytes.length; at += PIECE_BYTES) yield bytes.subarray(at, at + PIECE_BYTES);
}

async function* brokenOff(bytes: Buffer): AsyncIterable<Buffer> {
  yield* pieces(bytes.subarray(0, -1));
  throw new Error("the sender went away");
}

function digestOf(bytes: Buffer): Digest {
  return Digest.parse(`sha256:${createHash("sha256").update(bytes).digest("hex")}`);
}
