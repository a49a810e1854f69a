import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Failure, type FailureCode } from "../failure.ts";
import { type ArchiveLimits, createArchiveBudget } from "./archive-limits.ts";
import { readTar } from "./tar.ts";

interface Part {
  readonly flag: string;
  readonly path?: string;
  readonly size?: string;
  readonly content?: string;
}

function archive(...parts: Part[]): Uint8Array {
  const blocks = parts.flatMap(({ flag, path = "file", size, content = "" }) => {
    const head = Buffer.alloc(512);
    head.write(path, 0);
    head.write("0000644\0", 100, "latin1");
    head.write(size ?? content.length.toString(8).padStart(11, "0"), 124, "latin1");
    head.write("        ", 148);
    head.write(flag, 156);
    head.write("ustar\x0000", 257, "latin1");
    const sum = head.reduce((total, byte) => total + byte, 0);
    head.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148, "latin1");
    const body = Buffer.alloc(Math.ceil(content.length / 512) * 512);
    body.write(content);
    return [head, body];
  });
  return Buffer.concat([...blocks, Buffer.alloc(1024)]);
}

function pax(...records: [string, string][]): Part {
  const lines = records.map(([key, value]) => {
    const rest = ` ${key}=${value}\n`.length;
    let length = rest + 1;
    while (`${length}`.length + rest !== length) length++;
    return `${length} ${key}=${value}\n`;
  });
  return { flag: "x", content: lines.join("") };
}

const file: Part = { flag: "0", content: "hello" };
const failsWith = (code: FailureCode, pattern: RegExp) => (reason: unknown) =>
  reason instanceof Failure && reason.code === code && pattern.test(reason.message);

describe("a tar header", () => {
  for (const size of ["x", "-1", "NaN", "Infinity", "1e3", "0x5", "", "99999999999999999999"]) {
    test(`with the extended size ${JSON.stringify(size)} is refused`, () => {
      assert.throws(
        () => readTar(archive(pax(["size", size]), file)),
        failsWith("invalid", /size that cannot be/),
      );
    });
  }

  test("with an extended size is read by it", () => {
    const [entry] = readTar(archive(pax(["size", "3"]), file));

    assert.equal(entry?.type === "file" && Buffer.from(entry.bytes).toString(), "hel");
  });

  // biome-ignore format: a table reads as a table.
  const REFUSED: Record<string, [Part[], RegExp]> = {
    "a size given twice":          [[pax(["size", "5"], ["size", "0"]), file], /size twice/],
    "a path given by two headers": [[pax(["path", "a"]), pax(["path", "b"]), file], /path twice/],
    "a size for all entries":      [[{ ...pax(["size", "5"]), flag: "g" }, file], /all entries one size/],
    "a sparse file":               [[pax(["GNU.sparse.size", "9"]), file], /sparse/],
    "a negative binary size":      [[{ ...file, size: "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff" }], /cannot be/],
    "a huge binary size":          [[{ ...file, size: "\x80\x00\x00\x00\x7f\xff\xff\xff\xff\xff\xff\xff" }], /cannot be/],
    "headers without end":         [Array.from({ length: 9 }, () => pax(["comment", "x"])), /too many/],
    "an endless name":             [[{ flag: "L", size: "00010000000" }], /too long/],
    "a record longer than it is":  [[{ flag: "x", content: "99 path=a\n" }, file], /malformed/],
    "a record without an end":     [[{ flag: "x", content: "9 path=ab" }, file], /malformed/],
  };
  for (const [what, [parts, pattern]] of Object.entries(REFUSED)) {
    test(`with ${what} is refused`, () => {
      assert.throws(() => readTar(archive(...parts)), failsWith("invalid", pattern));
    });
  }

  test("with a comment for all entries changes none of them", () => {
    const [entry] = readTar(archive({ ...pax(["comment", "git"]), flag: "g" }, file));

    assert.equal(entry?.path, "file");
  });
});

describe("an archive over a limit is refused", () => {
  const files = ["a", "b", "c"].map((path) => ({ ...file, path }));
  // biome-ignore format: a table reads as a table.
  const LIMITS: Record<string, [Partial<ArchiveLimits>, RegExp]> = {
    "in bytes":           [{ bytesMax: 14 }, /over 14 bytes/],
    "in entries":         [{ entriesMax: 2 }, /over 2 entries/],
    "in a name":          [{ nameBytesMax: 0 }, /name of over 0 bytes/],
    "in all its names":   [{ namesBytesMax: 2 }, /over 2 bytes of names/],
    "in depth":           [{ depthMax: 0 }, /over 0 directories deep/],
  };
  for (const [what, [limits, pattern]] of Object.entries(LIMITS)) {
    test(what, () => {
      assert.throws(() => readTar(archive(...files), limits), failsWith("too_large", pattern));
    });
  }

  for (const size of [Number.NaN, -1, Number.POSITIVE_INFINITY, 0.5]) {
    test(`whatever reader counts a size of ${size}`, () => {
      const take = () => createArchiveBudget().take({ path: "a", size });

      assert.throws(take, failsWith("invalid", /cannot be/));
    });
  }
});
