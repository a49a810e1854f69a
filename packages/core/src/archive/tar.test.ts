import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { describe, test } from "node:test";
import * as fc from "fast-check";
import { Failure } from "../failure.ts";
import { readTar, type TarEntry, writeTar } from "./tar.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const file = (path: string, text = path): TarEntry => ({
  type: "file",
  path,
  mode: 0o644,
  bytes: bytes(text),
});
const directory = (path: string): TarEntry => ({ type: "directory", path, mode: 0o755 });
const symlink = (path: string, target: string): TarEntry => ({ type: "symlink", path, target });
const invalid = (pattern: RegExp) => (reason: unknown) =>
  reason instanceof Failure && reason.code === "invalid" && pattern.test(reason.message);

describe("an archive", () => {
  test("gives back what was put in, sorted", () => {
    const entries = [
      file("b/run.sh"),
      symlink("b/link", "../a.txt"),
      directory("b"),
      file("a.txt", ""),
    ];

    const paths = readTar(writeTar(entries));

    assert.deepEqual(paths, [
      file("a.txt", ""),
      directory("b"),
      symlink("b/link", "../a.txt"),
      file("b/run.sh"),
    ]);
  });

  test("is the same bytes whatever order the entries came in", () => {
    const entries = [file("b"), file("a"), directory("c")];

    assert.deepEqual(writeTar(entries), writeTar(entries.toReversed()));
  });

  test("keeps long and foreign names, as paths and as link targets", () => {
    const long = `${"deep/".repeat(60)}name`;
    const entries = [file(long), file("grüße/日本.txt"), symlink("link", long)].toSorted((a, b) =>
      a.path < b.path ? -1 : 1,
    );

    assert.deepEqual(readTar(writeTar(entries)), entries);
  });

  test("is understood by the system's tar, long names included", () => {
    const long = `${"deep/".repeat(60)}name`;
    const archive = writeTar([file(long), directory("d"), symlink("s", "d"), file("grüße")]);

    const listed = execFileSync("tar", ["-tf", "-"], {
      input: archive,
      env: { ...process.env, LC_ALL: "C.UTF-8" },
    });

    assert.deepEqual(listed.toString().trim().split("\n"), ["d/", long, "grüße", "s"]);
  });

  test("of the system's tar is understood, GNU long names and second names included", () => {
    const long = `${"x".repeat(120)}.txt`;
    const script = `set -e; d=$(mktemp -d); cd "$d"; echo hi > ${long}; ln ${long} other; ln -s other s; tar --format=gnu -cf - .; rm -r "$d"`;
    const archive = execFileSync("sh", ["-c", script]);

    const entries = new Map(readTar(archive).map((entry) => [entry.path, entry]));

    assert.deepEqual([...entries.keys()].toSorted(), ["other", "s", long].toSorted());
    for (const path of [long, "other"]) {
      const entry = entries.get(path);
      assert.equal(entry?.type === "file" && new TextDecoder().decode(entry.bytes), "hi\n");
    }
  });

  test("comes back from any entries", () => {
    fc.assert(
      fc.property(anyEntries(), (entries) => {
        const sorted = entries.toSorted((a, b) => (a.path < b.path ? -1 : 1));

        assert.deepEqual(readTar(writeTar(entries)), sorted);
      }),
    );
  });

  // biome-ignore format: a table reads as a table.
  const TRICKS: Record<string, [TarEntry[], RegExp]> = {
    "an absolute path":                    [[file("/etc/passwd")], /entry at "\/etc\/passwd"/],
    "a path that climbs":                  [[file("a/../../b")], /entry at/],
    "a path with a backslash":             [[file("..\\b")], /entry at/],
    "an absolute link":                    [[symlink("a", "/etc")], /link a leads to "\/etc"/],
    "a link that climbs out":              [[symlink("a/b", "../../c")], /link a\/b leads/],
    "a link that climbs after descending": [[symlink("a", "b/../../c")], /link a leads/],
    "a link that climbs through a link":   [[symlink("d/f", ".."), symlink("g", "d/f/..")], /link g leads/],
    "an empty link":                       [[symlink("a", "")], /link a leads/],
    "a file below a link":                 [[symlink("a", "b"), file("a/x")], /a\/x below a symlink/],
    "a file below a file":                 [[file("a"), file("a/x")], /a\/x below a file/],
    "the same path twice":                 [[file("a"), file("./a")], /names a twice/],
  };
  for (const [trick, [entries, pattern]] of Object.entries(TRICKS)) {
    test(`with ${trick} is neither written nor read`, () => {
      assert.throws(() => writeTar(entries), invalid(pattern));
      assert.throws(() => readTar(crafted(entries)), invalid(pattern));
    });
  }

  test("that is cut short, altered or holds a device is refused", () => {
    const whole = writeTar([file("a", "x".repeat(600))]);
    const altered = whole.slice();
    altered[0] = 0x7a;

    assert.throws(() => readTar(whole.subarray(0, 700)), invalid(/ends in the middle/));
    assert.throws(() => readTar(new Uint8Array(0)), invalid(/ends in the middle/));
    assert.throws(() => readTar(altered), invalid(/checksum/));
    assert.throws(
      () => readTar(retyped(writeTar([file("dev", "")]), "3")),
      invalid(/neither file/),
    );
  });

  test("never makes the reader fail in another way than by saying it is invalid", () => {
    const base = writeTar([file("a".repeat(150)), symlink("s", "a"), directory("d")]);
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.nat(base.length - 1), fc.nat(255)), { maxLength: 8 }),
        (edits) => {
          const copy = base.slice();
          for (const [at, value] of edits) copy[at] = value;
          try {
            readTar(copy);
          } catch (reason) {
            assert.ok(reason instanceof Failure, String(reason));
          }
        },
      ),
    );
  });
});

/** An archive that `writeTar` would refuse: each entry is written under a harmless name, then renamed. */
function crafted(entries: readonly TarEntry[]): Uint8Array {
  const blocks = entries.map((entry) => {
    const harmless = entry.type === "symlink" ? { ...entry, target: "t" } : entry;
    const block = writeTar([{ ...harmless, path: "p" }]).slice(0, -1024);
    block.set(bytes(entry.path.padEnd(100, "\0")), 0);
    if (entry.type === "symlink") block.set(bytes(entry.target.padEnd(100, "\0")), 157);
    return summed(block);
  });
  return Buffer.concat([...blocks, new Uint8Array(1024)]);
}

function retyped(archive: Uint8Array, type: string): Uint8Array {
  const copy = archive.slice();
  copy.set(bytes(type), 156);
  return summed(copy);
}

function summed(block: Uint8Array): Uint8Array {
  block.set(bytes(" ".repeat(8)), 148);
  const sum = block.subarray(0, 512).reduce((total, byte) => total + byte, 0);
  block.set(bytes(`${sum.toString(8).padStart(6, "0")}\0 `), 148);
  return block;
}

const PLAIN = { noNullPrototype: true };

function anyEntries(): fc.Arbitrary<TarEntry[]> {
  const name = fc
    .string({ minLength: 1, maxLength: 150 })
    .filter((text) => !/[/\\\0]|^\.{1,2}$/.test(text) && text.isWellFormed());
  const mode = fc.constantFrom(0o644, 0o755, 0o600);
  const entry: fc.Arbitrary<TarEntry> = fc.oneof(
    fc.record(
      {
        type: fc.constant("file" as const),
        path: name,
        mode,
        bytes: fc.uint8Array({ maxLength: 1500 }).map((array) => Uint8Array.from(array)),
      },
      PLAIN,
    ),
    fc.record({ type: fc.constant("directory" as const), path: name, mode }, PLAIN),
    fc.record({ type: fc.constant("symlink" as const), path: name, target: name }, PLAIN),
  );
  return fc.uniqueArray(entry, { selector: ({ path }) => path, maxLength: 6 });
}
