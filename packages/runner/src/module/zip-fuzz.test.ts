// Zip archives with their own records changed: lengths, counts, offsets, names and methods, and bytes
// anywhere. Whatever comes is unpacked within its limits or refused by a Failure, and nothing is
// written outside the directory.

import assert from "node:assert/strict";
import { lstat, mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { Failure } from "@exclave/core";
import { collect } from "@exclave/oci";
import fc from "fast-check";
import { temporaryDirectory } from "../testing/temporary-directory.ts";
import { unzip } from "./zip-reader.ts";
import { createZip } from "./zip-writer.ts";

const SEED = 20_261_116;
const LIMITS = { bytesMax: 6_000, entriesMax: 4 };

test("any zip archive is unpacked within its limits or refused by a Failure", async (t) => {
  const top = await temporaryDirectory(t);
  const base = await archive(join(top, "from"));
  const change = changeOf(base);
  let run = 0;
  let [unpacked, refused] = [0, 0];

  await fc.assert(
    fc.asyncProperty(fc.array(change, { maxLength: 4 }), async (changes) => {
      const bytes = changes.reduce<Buffer>((before, apply) => apply(before), Buffer.from(base));
      const place = join(top, String(run++));
      await mkdir(place);
      await writeFile(join(place, "archive.zip"), bytes);
      try {
        await unzip(join(place, "archive.zip"), join(place, "to", "deep"), LIMITS);
        unpacked += 1;
      } catch (reason) {
        if (!(reason instanceof Failure) || reason.code === "bug") throw reason;
        refused += 1;
      }

      assert.deepEqual(await outside(place), []);
      assert.ok((await sizeOf(join(place, "to"))) <= LIMITS.bytesMax);
    }),
    { seed: SEED, numRuns: 1_500 },
  );
  assert.ok(unpacked > 50 && refused > 500, `${unpacked} unpacked, ${refused} refused`);
});

async function archive(from: string): Promise<Buffer> {
  await mkdir(join(from, "d"), { recursive: true });
  await writeFile(join(from, "a.tf"), "one");
  await writeFile(join(from, "d", "b"), "x".repeat(5_000));
  await using packed = await createZip(from, { mediaType: "archive/zip" });
  return Buffer.from(await collect(packed.open(0)));
}

type Change = (bytes: Buffer) => Buffer;

function changeOf(base: Buffer): fc.Arbitrary<Change> {
  const signatures = [0x04034b50, 0x02014b50, 0x06054b50];
  const records = signatures.flatMap((signature) => {
    const mark = Buffer.alloc(4);
    mark.writeUInt32LE(signature);
    const found: number[] = [];
    for (let at = base.indexOf(mark); at >= 0; at = base.indexOf(mark, at + 1)) found.push(at);
    return found;
  });
  const field = fc
    .record({
      record: fc.constantFrom(...records),
      offset: fc.integer({ min: 4, max: 44 }),
      value: fc.constantFrom(0, 1, 0xff, 0xffff, 0xfffe, 0x7fff, 3, 5_000, 50_000),
    })
    .map(({ record, offset, value }): Change => {
      return (bytes) => {
        if (record + offset + 2 <= bytes.length) bytes.writeUInt16LE(value, record + offset);
        return bytes;
      };
    });
  const renamed = fc.constantFrom("../x", "/x/y", "d/bb", "a\0tf", "a\\tf", "d///").map(
    (name): Change =>
      (bytes) => {
        for (const old of ["a.tf", "d/b"]) {
          const at = bytes.lastIndexOf(old);
          if (at >= 0) bytes.write(name.slice(0, old.length), at);
        }
        return bytes;
      },
  );
  const anywhere = fc.tuple(fc.nat(base.length - 1), fc.nat(255)).map(
    ([at, value]): Change =>
      (bytes) => {
        if (at < bytes.length) bytes[at] = value;
        return bytes;
      },
  );
  const cut = fc.nat(base.length).map(
    (length): Change =>
      (bytes) =>
        bytes.subarray(0, length),
  );
  return fc.oneof(
    { weight: 6, arbitrary: field },
    { weight: 2, arbitrary: renamed },
    { weight: 2, arbitrary: anywhere },
    { weight: 1, arbitrary: cut },
  );
}

async function outside(place: string): Promise<string[]> {
  const names = await readdir(place);
  const inTo = await readdir(join(place, "to")).catch(() => []);
  return [
    ...names.filter((name) => name !== "archive.zip" && name !== "to"),
    ...inTo.filter((name) => name !== "deep"),
  ];
}

async function sizeOf(root: string): Promise<number> {
  let size = 0;
  for (const path of await readdir(root, { recursive: true }).catch(() => [])) {
    const found = await lstat(join(root, path));
    if (found.isFile()) size += found.size;
  }
  return size;
}
