// What every object store promises, as tests.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { describe, type TestContext, test } from "node:test";
import { type ObjectStore, objectsBelow, readPieces } from "../object-store.ts";

const MEBIBYTE = 1024 * 1024;

export function describeObjectStore(
  name: string,
  create: (t: TestContext) => Promise<ObjectStore>,
  { skip }: { readonly skip?: string | undefined } = {},
): void {
  describe(`${name} keeps the contract of object stores`, { skip: skip ?? false }, () => {
    test("gives back what was written, whole and in part", async (t) => {
      const store = await create(t);
      await store.write("some/key+with:odd (characters)", Buffer.from("hello world"));

      const key = "some/key+with:odd (characters)";
      assert.equal(String(await store.read(key)), "hello world");
      assert.equal(String(await store.read(key, { from: 6, to: 8 })), "wor");
      assert.equal(String(await store.read(key, { from: 6, to: 800 })), "world");
      assert.equal((await store.head(key))?.sizeBytes, 11);
    });

    test("has nothing under a key nobody wrote, and removing it is no error", async (t) => {
      const store = await create(t);

      assert.equal(await store.read("nothing"), undefined);
      assert.equal(await store.head("nothing"), undefined);
      await store.remove("nothing");
    });

    test("replaces an object as a whole, and an empty one is there", async (t) => {
      const store = await create(t);
      await store.write("a", Buffer.from("a long text"));
      await store.write("a", Buffer.from("short"));
      await store.write("empty", Buffer.alloc(0));

      assert.equal(String(await store.read("a")), "short");
      assert.equal((await store.head("empty"))?.sizeBytes, 0);
    });

    test("forgets what is removed", async (t) => {
      const store = await create(t);
      await store.write("a/b", Buffer.from("x"));

      await store.remove("a/b");

      assert.equal(await store.head("a/b"), undefined);
      assert.deepEqual(await keys(store, "a/"), []);
    });

    test("lists by prefix in the order of keys, also more than a page", async (t) => {
      const store = await create(t);
      const numbers = Array.from({ length: 1_050 }, (_, n) => String(n).padStart(5, "0"));
      const waiting = numbers.map((n) => `many/${n}`);
      const write = async () => {
        for (let key = waiting.pop(); key; key = waiting.pop()) {
          await store.write(key, Buffer.from(key));
        }
      };
      await Promise.all(Array.from({ length: 16 }, write));
      await store.write("more", Buffer.from("not below it"));

      assert.deepEqual(
        await keys(store, "many/"),
        numbers.map((n) => `many/${n}`),
      );
      assert.deepEqual((await keys(store, "many/010")).length, 50);
    });

    test("tells the folders right below a prefix", async (t) => {
      const store = await create(t);
      for (const key of ["r/a/+tags/1", "r/a/b/+tags/2", "r/c&d/+tags/3", "r/file", "s/x/y"]) {
        await store.write(key, Buffer.from("x"));
      }

      assert.deepEqual(await store.folders("r/"), ["a", "c&d"]);
      assert.deepEqual(await store.folders("r/a/"), ["+tags", "b"]);
      assert.deepEqual(await store.folders("nothing/"), []);
    });

    test("takes a large object in parts, and shows nothing of it before its end", async (t) => {
      const store = await create(t);
      const bytes = randomBytes(17 * MEBIBYTE + 5);
      const upload = store.upload("large", { sizeBytes: bytes.length });
      for (let at = 0; at < bytes.length; at += 3 * MEBIBYTE) {
        await upload.write(bytes.subarray(at, at + 3 * MEBIBYTE));
      }
      const before = await store.head("large");
      await upload.complete();

      const pieces: Buffer[] = [];
      for await (const piece of readPieces(store, "large", { from: 0, to: bytes.length - 1 })) {
        pieces.push(piece);
      }
      assert.equal(before, undefined);
      assert.ok(Buffer.concat(pieces).equals(bytes));
    });

    test("takes a small object and an empty one by the same way", async (t) => {
      const store = await create(t);
      const small = store.upload("small");
      await small.write(Buffer.from("a few bytes"));
      await small.complete();
      await store.upload("none").complete();

      assert.equal(String(await store.read("small")), "a few bytes");
      assert.equal((await store.head("none"))?.sizeBytes, 0);
    });

    test("keeps nothing of an upload that was given up", async (t) => {
      const store = await create(t);
      const upload = store.upload("given-up");
      await upload.write(randomBytes(9 * MEBIBYTE));

      await upload.abort();

      assert.equal(await store.head("given-up"), undefined);
      assert.equal(await store.abortUploads("given-up", Date.now() + 3_600_000), 0);
    });

    test("gives up uploads that were left behind, and no younger ones", async (t) => {
      const store = await create(t);
      const left = store.upload("left/behind");
      await left.write(randomBytes(9 * MEBIBYTE));
      await left.write(randomBytes(8 * MEBIBYTE));

      assert.equal(await store.abortUploads("left/", Date.now() - 3_600_000), 0);
      assert.equal(await store.abortUploads("other/", Date.now() + 3_600_000), 0);
      assert.equal(await store.abortUploads("left/", Date.now() + 3_600_000), 1);
      await assert.rejects(async () => {
        await left.complete();
      });
      assert.equal(await store.head("left/behind"), undefined);
    });

    test("can be seen from a prefix on", async (t) => {
      const store = await create(t);
      const below = objectsBelow(store, "tenant/");
      await below.write("a", Buffer.from("x"));

      assert.deepEqual(await keys(store, ""), ["tenant/a"]);
      assert.deepEqual(await keys(below, ""), ["a"]);
    });
  });
}

async function keys(store: ObjectStore, prefix: string): Promise<string[]> {
  const found: string[] = [];
  for await (const { key } of store.list(prefix)) found.push(key);
  return found;
}
