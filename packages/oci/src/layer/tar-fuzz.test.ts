// Archives made to be misread: headers with sizes that are none, records said twice, names and links
// of every kind, in one seed's worth of combinations. Whatever comes is read, or refused by a Failure;
// no limit is passed on the way, and both readers say the same.

import assert from "node:assert/strict";
import { lstat, readdir } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { Failure, readTar as readTarInMemory } from "@exclave/core";
import fc from "fast-check";
import { MEDIA_TYPES } from "../content/descriptor.ts";
import { bytesOf, collect } from "../content/digest.ts";
import { temporaryDirectory } from "../testing/temporary-directory.ts";
import { readTar } from "./tar-reader.ts";
import { unpackLayer } from "./unpack.ts";

const SEED = 20_261_116;

interface Block {
  readonly flag: string;
  readonly path: string;
  readonly target: string;
  readonly sizeField: Buffer;
  readonly content: Buffer;
}

const octal = (size: number) => Buffer.from(`${size.toString(8).padStart(11, "0")}\0`);
const binary = (marker: number, size: number) => {
  const field = Buffer.alloc(12);
  field.writeBigUInt64BE(BigInt(size), 4);
  field[0] = marker;
  return field;
};

const sizeText = fc.constantFrom(
  "x", "-1", "-9999999999", "NaN", "Infinity", "1e3", "0x10", "", " 5", "+5", "5\0",
  "9007199254740993", "99999999999999999999", "0", "5", "512", "100000",
); // biome-ignore format: a list reads as a list.
const name = fc.constantFrom(
  "a", "b", "d/", "d/e", "d/e/f", "../x", "/x", ".", "", "a/../b", "ü", "n".repeat(300),
  `${"deep/".repeat(200)}x`, ".wh.a", "d/.wh..wh..opq", "a\\b",
); // biome-ignore format: a list reads as a list.
const target = fc.constantFrom("a", "../..", "/etc/passwd", "d", "", "l", "t".repeat(5_000));
const content = fc.uint8Array({ maxLength: 1_200 }).map((bytes) => Buffer.from(bytes));
const anySize = fc.oneof(
  { weight: 6, arbitrary: fc.constant(undefined) },
  { weight: 1, arbitrary: fc.integer({ min: 0, max: 4_000 }).map(octal) },
  {
    weight: 1,
    arbitrary: fc
      .tuple(fc.constantFrom(0x80, 0x81, 0xff), fc.constantFrom(0, 5, 512, 2 ** 40))
      .map(([marker, size]) => binary(marker, size)),
  },
  {
    weight: 1,
    arbitrary: fc.uint8Array({ minLength: 12, maxLength: 12 }).map((bytes) => Buffer.from(bytes)),
  },
);

const record = fc
  .tuple(
    fc.constantFrom("size", "path", "linkpath", "comment", "GNU.sparse.size", "SCHILY.xattr.x"),
    fc.oneof(sizeText, name, target),
    fc.constantFrom(0, 0, 0, 0, 1, -1, 100_000),
  )
  .map(([key, value, lie]) => paxRecord(key, value, lie));

function paxRecord(key: string, value: string, lie: number): Buffer {
  const rest = Buffer.byteLength(` ${key}=${value}\n`);
  let length = rest + 1;
  while (`${length}`.length + rest !== length) length++;
  return Buffer.from(`${length + lie} ${key}=${value}\n`);
}

const entry: fc.Arbitrary<Block> = fc
  .record({
    flag: fc.constantFrom("0", "\0", "1", "2", "5", "7", "3", "S"),
    path: name.map((text) => text.slice(0, 99)),
    target: target.map((text) => text.slice(0, 99)),
    sizeField: anySize,
    content,
  })
  .map((block) => ({ ...block, sizeField: block.sizeField ?? octal(block.content.length) }));
const extension: fc.Arbitrary<Block> = fc
  .record({
    flag: fc.constantFrom("x", "x", "x", "g", "L", "K"),
    path: fc.constant("pax"),
    target: fc.constant(""),
    sizeField: anySize,
    content: fc.oneof(
      fc.array(record, { maxLength: 4 }).map((records) => Buffer.concat(records)),
      fc.oneof(name, target).map((text) => Buffer.from(`${text}\0`)),
      content,
    ),
  })
  .map((block) => ({ ...block, sizeField: block.sizeField ?? octal(block.content.length) }));

const archive = fc
  .record({
    blocks: fc.array(fc.oneof(entry, extension), { maxLength: 8 }),
    cut: fc.option(fc.nat(6_000), { freq: 6 }),
  })
  .map(({ blocks, cut }) => {
    const whole = Buffer.concat([...blocks.flatMap(encode), Buffer.alloc(1024)]);
    return cut === null ? whole : whole.subarray(0, cut);
  });

function encode({ flag, path, target: to, sizeField, content: body }: Block): Buffer[] {
  const head = Buffer.alloc(512);
  head.write(path, 0);
  head.write("0000644\0", 100, "latin1");
  sizeField.copy(head, 124, 0, 12);
  head.write("        ", 148);
  head.write(flag, 156, "latin1");
  head.write(to, 157);
  head.write("ustar\x0000", 257, "latin1");
  const sum = head.reduce((total, byte) => total + byte, 0);
  head.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148, "latin1");
  const padded = Buffer.alloc(Math.ceil(body.length / 512) * 512);
  body.copy(padded);
  return [head, padded];
}

async function streamed(bytes: Uint8Array) {
  const found = [];
  for await (const { path, type, size, content: body } of readTar(bytesOf(bytes))) {
    const read = await collect(body);
    assert.equal(read.length, size);
    found.push({ path, type, bytes: Buffer.from(read) });
  }
  return found;
}

async function outcome<Value>(read: () => Value | Promise<Value>): Promise<Value | Failure> {
  try {
    return await read();
  } catch (reason) {
    if (reason instanceof Failure && reason.code !== "bug") return reason;
    throw reason;
  }
}

test("any archive is read or refused by a Failure, and both readers say the same of its files", async () => {
  await fc.assert(
    fc.asyncProperty(archive, async (bytes) => {
      const stream = await outcome(() => streamed(bytes));
      const whole = await outcome(() => readTarInMemory(bytes));

      if (stream instanceof Failure) return assert.ok(whole instanceof Failure);
      const total = stream.reduce((sum, { bytes: body }) => sum + body.length, 0);
      assert.ok(total <= bytes.length, "no more comes out than went in");
      if (whole instanceof Failure) return;
      // A second name is a link to one reader and a copy to the other.
      const plain = stream.filter(({ type }) => type === "file" || type === "hardlink");
      const inMemory = whole.filter((file) => file.type === "file");
      assert.equal(inMemory.length, plain.length);
      for (const [index, { type, bytes: body }] of plain.entries()) {
        if (type === "file") assert.deepEqual(Buffer.from(inMemory[index]?.bytes ?? []), body);
      }
    }),
    { seed: SEED, numRuns: 4_000 },
  );
});

test("no archive unpacks to more bytes or entries than it may, whatever its headers say", async (t) => {
  const directory = await temporaryDirectory(t);
  const limits = { bytesMax: 1_000, entriesMax: 4 };
  let run = 0;
  let unpacked = 0;

  await fc.assert(
    fc.asyncProperty(archive, async (bytes) => {
      const root = join(directory, String(run++));
      const ended = await outcome(() =>
        unpackLayer(bytesOf(bytes), MEDIA_TYPES.layerTar, root, limits),
      );

      const { size, files } = await measure(root);
      assert.ok(size <= limits.bytesMax, `${size} bytes lie on the disk`);
      assert.ok(files <= limits.entriesMax, `${files} files lie on the disk`);
      if (!(ended instanceof Failure)) unpacked += 1;
    }),
    { seed: SEED, numRuns: 1_200 },
  );
  assert.ok(unpacked > 50, `only ${unpacked} archives were good: the fuzz tries nothing`);
});

async function measure(root: string): Promise<{ size: number; files: number }> {
  let [size, files] = [0, 0];
  for (const path of await readdir(root, { recursive: true }).catch(() => [])) {
    const found = await lstat(join(root, path));
    if (found.isDirectory()) continue;
    files += 1;
    if (found.isFile() && found.nlink === 1) size += found.size;
  }
  return { size, files };
}
