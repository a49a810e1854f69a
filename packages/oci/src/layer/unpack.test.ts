import assert from "node:assert/strict";
import { lstat, readdir, readFile, readlink, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, type TestContext, test } from "node:test";
import { gzipSync, zstdCompressSync } from "node:zlib";
import { Failure } from "@exclave/core";
import { MEDIA_TYPES } from "../content/descriptor.ts";
import { bytesOf } from "../content/digest.ts";
import { temporaryDirectory } from "../testing/temporary-directory.ts";
import { unpackLayer } from "./unpack.ts";

interface Entry {
  readonly path: string;
  readonly flag?: string;
  readonly mode?: number;
  readonly target?: string;
  readonly content?: string;
}

/** Any entry at all, also those that our own writer would never make. */
function tar(...entries: Entry[]): Buffer {
  const blocks = entries.flatMap(
    ({ path, flag = "0", mode = 0o644, target = "", content = "" }) => {
      const head = Buffer.alloc(512);
      head.write(path, 0);
      head.write(mode.toString(8).padStart(7, "0"), 100);
      head.write(content.length.toString(8).padStart(11, "0"), 124);
      head.write("        ", 148);
      head.write(flag, 156);
      head.write(target, 157);
      head.write("ustar\x0000", 257, "latin1");
      const sum = head.reduce((total, byte) => total + byte, 0);
      head.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148, "latin1");
      const body = Buffer.alloc(Math.ceil(content.length / 512) * 512);
      body.write(content);
      return [head, body];
    },
  );
  return Buffer.concat([...blocks, Buffer.alloc(1024)]);
}

async function unpack(
  archive: Buffer,
  directory: string,
  mediaType: string = MEDIA_TYPES.layerTar,
) {
  await unpackLayer(bytesOf(archive), mediaType, directory);
}

async function places(t: TestContext) {
  const top = await temporaryDirectory(t);
  return { outside: top, directory: join(top, "root") };
}

describe("unpackLayer", () => {
  const HOSTILE: Record<string, Entry[]> = {
    "an absolute path": [{ path: "/evil", content: "x" }],
    "a path through ..": [{ path: "a/../../evil", content: "x" }],
    "a link that leads out, alone": [{ path: "evil", flag: "2", target: "../../etc/passwd" }],
    "a file through a link that leads out": [
      { path: "out", flag: "2", target: ".." },
      { path: "out/evil", content: "x" },
    ],
    "a link that leads out by way of another link": [
      { path: "a/b/c", flag: "5", mode: 0o755 },
      { path: "a/b/c/up", flag: "2", target: "../../.." },
      { path: "evil", flag: "2", target: "a/b/c/up/../secret" },
    ],
    "links that go in circles": [
      { path: "one", flag: "2", target: "two" },
      { path: "two", flag: "2", target: "one" },
    ],
    "a hard link to something outside": [{ path: "evil", flag: "1", target: "../secret" }],
    "a hard link through a link that leads out": [
      { path: "out", flag: "2", target: ".." },
      { path: "evil", flag: "1", target: "out/secret" },
    ],
    "a device": [{ path: "null", flag: "3" }],
    "a named pipe": [{ path: "pipe", flag: "6" }],
    "a whiteout of its parent": [{ path: "a/.wh...", content: "" }],
  };
  for (const [what, entries] of Object.entries(HOSTILE)) {
    test(`refuses ${what}`, async (t) => {
      const { outside, directory } = await places(t);
      await writeFile(join(outside, "secret"), "secret");

      await assert.rejects(
        unpack(tar(...entries), directory),
        (reason) => reason instanceof Failure && reason.code === "invalid",
      );

      assert.deepEqual((await readdir(outside)).sort(), ["root", "secret"]);
      const evil = await lstat(join(directory, "evil")).catch(() => undefined);
      assert.equal(evil, undefined);
    });
  }

  test("leaves no link of an archive that it refuses, wherever the bad one stands", async (t) => {
    const out = { path: "a", flag: "2", target: "../escape" };
    const notes = { path: "sub/notes.txt", flag: "2", target: "../../victim.txt" };
    const fine = { path: "fine", flag: "2", target: "sub" };
    const archives = [
      tar(out, notes, fine),
      tar(fine, notes, { path: "pipe", flag: "6" }),
      tar(notes, fine).subarray(0, 1_100),
    ];
    for (const archive of archives) {
      const { directory } = await places(t);

      await assert.rejects(unpack(archive, directory), Failure);

      const left = await readdir(directory, { recursive: true, withFileTypes: true });
      const links = left.filter((entry) => entry.isSymbolicLink());
      assert.deepEqual(
        links.map(({ name }) => name),
        [],
      );
    }
  });

  test("removes nothing outside when a link's directory has become a link that leads out", async (t) => {
    const { outside, directory } = await places(t);
    await symlink("nowhere", join(outside, "x"));
    const archive = tar(
      { path: "a/x", flag: "2", target: "y" },
      { path: "a", flag: "2", target: ".." },
    );

    await assert.rejects(unpack(archive, directory), Failure);

    assert.deepEqual((await readdir(outside)).sort(), ["root", "x"]);
    assert.deepEqual(await readdir(directory), []);
  });

  test("refuses to write through a link that was in the directory before", async (t) => {
    const { outside, directory } = await places(t);
    await unpack(tar({ path: "a", content: "1" }), directory);
    await symlink(outside, join(directory, "out"));

    await assert.rejects(unpack(tar({ path: "out/evil", content: "x" }), directory), Failure);

    assert.deepEqual(await readdir(outside), ["root"]);
  });

  test("follows links that stay inside, and makes absolute ones relative to the root", async (t) => {
    const { directory } = await places(t);

    await unpack(
      tar(
        { path: "usr/lib", flag: "5", mode: 0o755 },
        { path: "lib", flag: "2", target: "usr/lib" },
        { path: "lib/a.so", content: "library" },
        { path: "usr/b.so", flag: "2", target: "/lib/a.so" },
      ),
      directory,
    );

    assert.equal(await readFile(join(directory, "usr/lib/a.so"), "utf8"), "library");
    assert.equal(await readlink(join(directory, "usr/b.so")), "../lib/a.so");
    assert.equal(await readFile(join(directory, "usr/b.so"), "utf8"), "library");
  });

  test("replaces a link by a file instead of writing through it", async (t) => {
    const { directory } = await places(t);

    await unpack(
      tar(
        { path: "real", content: "real" },
        { path: "name", flag: "2", target: "real" },
        { path: "name", content: "new" },
      ),
      directory,
    );

    assert.equal(await readFile(join(directory, "real"), "utf8"), "real");
    assert.equal(await readFile(join(directory, "name"), "utf8"), "new");
  });

  test("drops set-user-id and keeps the rest of the mode", async (t) => {
    const { directory } = await places(t);

    await unpack(tar({ path: "su", mode: 0o4755, content: "x" }), directory);

    assert.equal((await stat(join(directory, "su"))).mode & 0o7777, 0o755);
  });

  test("a whiteout hides what lower layers brought and spares its own layer", async (t) => {
    const { directory } = await places(t);
    await unpack(
      tar(
        { path: "gone", content: "1" },
        { path: "dir/old", content: "1" },
        { path: "dir/sub/old", content: "1" },
        { path: "other/kept", content: "1" },
      ),
      directory,
    );

    await unpack(
      tar(
        { path: ".wh.gone" },
        { path: "dir/new", content: "2" },
        { path: "dir/.wh..wh..opq" },
        { path: "fresh", content: "2" },
        { path: ".wh.fresh" },
      ),
      directory,
    );

    assert.deepEqual((await readdir(directory, { recursive: true })).sort(), [
      "dir",
      "dir/new",
      "fresh",
      "other",
      "other/kept",
    ]);
  });

  test("reads gzip and zstd, and refuses what is neither whole nor compressed as it says", async (t) => {
    const { directory } = await places(t);
    const archive = tar({ path: "a", content: "text" });
    const gzip = MEDIA_TYPES.layerGzip;

    await unpack(gzipSync(archive), directory, gzip);
    await unpack(gzipSync(archive), directory, "application/vnd.docker.image.rootfs.diff.tar.gzip");
    await unpack(zstdCompressSync(archive), directory, MEDIA_TYPES.layerZstd);

    assert.equal(await readFile(join(directory, "a"), "utf8"), "text");
    const whole = gzipSync(archive);
    const broken: [Buffer, string][] = [
      [whole.subarray(0, whole.length / 2), gzip],
      [archive, gzip],
      [whole, MEDIA_TYPES.layerTar],
      [archive.subarray(0, 600), MEDIA_TYPES.layerTar],
      [archive, "application/zip"],
    ];
    for (const [bytes, mediaType] of broken) {
      await assert.rejects(unpack(bytes, directory, mediaType), Failure);
    }
  });

  test("stops at its limit of bytes", async (t) => {
    const { directory } = await places(t);
    const archive = tar({ path: "a", content: "x".repeat(2_000) });

    await assert.rejects(
      unpackLayer(bytesOf(archive), MEDIA_TYPES.layerTar, directory, { bytesMax: 1_000 }),
      (reason) => reason instanceof Failure && reason.code === "too_large",
    );
  });

  test("reads archives that GNU tar made, long names included, in chunks of any size", async (t) => {
    const { outside, directory } = await places(t);
    const { execFileSync } = await import("node:child_process");
    const name = `${"n".repeat(120)}.txt`;
    await writeFile(join(outside, name), "long");
    for (const format of ["gnu", "pax", "ustar"]) {
      const file = format === "ustar" ? "short" : name;
      if (format === "ustar") await writeFile(join(outside, "short"), "short");
      const args = [`--format=${format}`, "-cf", "-", "-C", outside, `./${file}`];
      const archive = execFileSync("tar", args);
      async function* slowly() {
        for (let at = 0; at < archive.length; at += 7) yield archive.subarray(at, at + 7);
      }

      await unpackLayer(slowly(), MEDIA_TYPES.layerTar, directory);

      const found = await readFile(join(directory, file), "utf8");
      assert.equal(found, format === "ustar" ? "short" : "long");
    }
  });
});
