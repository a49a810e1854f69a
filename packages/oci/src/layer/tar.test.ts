import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";
import { Failure } from "@exclave/core";
import fc from "fast-check";
import { bytesOf, collect } from "../content/digest.ts";
import { readTar } from "./tar-reader.ts";
import { type TarEntry, writeTar } from "./tar-writer.ts";

const segment = fc
  .string({ unit: "grapheme", minLength: 1, maxLength: 60 })
  .filter((name) => !/[/\0]/.test(name) && name !== "." && name !== ".." && name.isWellFormed());
const path = fc.array(segment, { minLength: 1, maxLength: 4 }).map((names) => names.join("/"));
const file = fc.record({
  path,
  mode: fc.constantFrom(0o644, 0o755),
  content: fc.uint8Array({ maxLength: 1_500 }),
});

function fileEntry(path: string, mode: number, content: Uint8Array): TarEntry {
  return { path, mode, type: "file", size: content.length, open: () => bytesOf(content) };
}

async function read(source: AsyncIterable<Uint8Array>) {
  const found = [];
  for await (const { path, type, mode, target, content } of readTar(source)) {
    found.push({ path, type, mode, target, content: Buffer.from(await collect(content)) });
  }
  return found;
}

test("whatever is written is read back, in pieces of any size", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(file, { maxLength: 5 }),
      fc.integer({ min: 1, max: 700 }),
      async (files, step) => {
        const archive = await collect(
          writeTar(files.map(({ path, mode, content }) => fileEntry(path, mode, content))),
        );
        async function* pieces() {
          for (let at = 0; at < archive.length; at += step) yield archive.subarray(at, at + step);
        }

        const found = await read(pieces());

        assert.deepEqual(
          found,
          files.map(({ path, mode, content }) => {
            return { path, type: "file", mode, target: "", content: Buffer.from(content) };
          }),
        );
      },
    ),
    { numRuns: 60 },
  );
});

test("entries nobody reads are passed over", async () => {
  const archive = writeTar([
    fileEntry("one", 0o644, Buffer.alloc(5_000)),
    { path: "dir", mode: 0o755, type: "directory" },
    { path: "link", mode: 0o777, type: "symlink", target: "x".repeat(150) },
    fileEntry("two", 0o644, Buffer.from("2")),
  ]);

  const names = [];
  for await (const entry of readTar(archive)) names.push([entry.path, entry.type, entry.target]);

  assert.deepEqual(names, [
    ["one", "file", ""],
    ["dir/", "directory", ""],
    ["link", "symlink", "x".repeat(150)],
    ["two", "file", ""],
  ]);
});

test("the system's tar lists what we write", async () => {
  const long = `${"d".repeat(99)}/${"ü".repeat(80)}`;
  const archive = await collect(writeTar([fileEntry(long, 0o644, Buffer.from("x"))]));

  const env = { ...process.env, LC_ALL: "C.UTF-8" };
  const listed = execFileSync("tar", ["--quoting-style=literal", "-tf", "-"], {
    input: archive,
    env,
  });

  assert.equal(listed.toString("utf8"), `${long}\n`);
});

test("a file that grows while it is packed is noticed", async () => {
  const growing: TarEntry = {
    ...fileEntry("log", 0o644, Buffer.from("longer")),
    size: 3,
  } as TarEntry;

  await assert.rejects(
    collect(writeTar([growing])),
    (reason) => reason instanceof Failure && reason.code === "conflict",
  );
});
