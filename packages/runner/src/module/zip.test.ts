import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import {
  chmod,
  mkdir,
  readdir,
  readFile,
  stat,
  symlink,
  utimes,
  writeFile,
} from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { type TestContext, test } from "node:test";
import { collect } from "@exclave/oci";
import { ZipFile } from "yazl";
import { temporaryDirectory } from "../testing/temporary-directory.ts";
import { readZip, unzip } from "./zip-reader.ts";
import { createZip } from "./zip-writer.ts";

const NOTHING = Buffer.alloc(0);
const OPTIONS = { mediaType: "archive/zip" };

async function tree(directory: string): Promise<string> {
  await mkdir(join(directory, "b", "deep"), { recursive: true });
  await writeFile(join(directory, "b", "deep", "größe.txt"), "x".repeat(500_000));
  await writeFile(join(directory, "a.tf"), "one");
  await writeFile(join(directory, "empty"), "");
  await writeFile(join(directory, "run"), "#!/bin/sh\n");
  await chmod(join(directory, "run"), 0o700);
  return directory;
}

/** An archive as a file, with one place in it changed if asked. */
async function archive(t: TestContext, from: string, change?: (bytes: Buffer) => void) {
  await using packed = await createZip(from, OPTIONS);
  const bytes = Buffer.from(await collect(packed.open(0)));
  change?.(bytes);
  const file = join(await temporaryDirectory(t), "archive.zip");
  await writeFile(file, bytes);
  return { file, bytes, ...packed.descriptor };
}

test("the same files make the same archive, whoever packs them and when", async (t) => {
  const one = await tree(join(await temporaryDirectory(t), "one"));
  const two = await tree(join(await temporaryDirectory(t), "two"));
  await utimes(join(two, "a.tf"), 1, 1);
  await chmod(join(two, "a.tf"), 0o640);

  const first = await archive(t, one);
  const second = await archive(t, two);
  await writeFile(join(two, "a.tf"), "two");
  const third = await archive(t, two);

  assert.equal(first.digest, second.digest);
  assert.notEqual(first.digest, third.digest);
  assert.equal(first.size, first.bytes.length);
});

test("files come out as they went in", async (t) => {
  const directory = await temporaryDirectory(t);
  const { file } = await archive(t, await tree(join(directory, "from")));

  await unzip(file, join(directory, "to"));

  const to = join(directory, "to");
  const names = (await readdir(to, { recursive: true })).toSorted();
  assert.deepEqual(names, ["a.tf", "b", "b/deep", "b/deep/größe.txt", "empty", "run"]);
  assert.equal(await readFile(join(to, "b/deep/größe.txt"), "utf8"), "x".repeat(500_000));
  assert.equal((await stat(join(to, "run"))).mode & 0o777, 0o755);
  assert.equal((await stat(join(to, "empty"))).size, 0);
});

const noUnzip = spawnSync("unzip", ["-v"]).status !== 0 && "unzip is not installed";
test("another program finds nothing wrong with it", { skip: noUnzip }, async (t) => {
  const { file } = await archive(t, await tree(await temporaryDirectory(t)));

  const said = execFileSync("unzip", ["-tqq", file], { encoding: "utf8" });

  assert.equal(said, "");
});

const noZip = spawnSync("zip", ["-v"]).status !== 0 && "zip is not installed";
test("what another program made is read too", { skip: noZip }, async (t) => {
  const directory = await temporaryDirectory(t);
  const from = await tree(join(directory, "from"));
  execFileSync("zip", ["-qr", join(directory, "made.zip"), "."], { cwd: from });

  await unzip(join(directory, "made.zip"), join(directory, "to"));

  assert.equal(await readFile(join(directory, "to", "a.tf"), "utf8"), "one");
});

test("a link inside the directory becomes what it leads to, one that leads out is refused", async (t) => {
  const directory = await temporaryDirectory(t);
  const from = await tree(join(directory, "from"));
  await symlink("a.tf", join(from, "again.tf"));
  await symlink("b", join(from, "c"));

  const { file } = await archive(t, from);
  const paths = (await readZip(file)).map(({ path }) => path);
  assert.ok(paths.includes("again.tf") && paths.includes("c/deep/größe.txt"), paths.join());

  await symlink("..", join(from, "out"));
  await assert.rejects(createZip(from, OPTIONS), /out links to a place outside the directory/);
});

test("links that go in circles end", async (t) => {
  const from = await tree(await temporaryDirectory(t));
  await symlink(".", join(from, "again"));

  await assert.rejects(createZip(from, OPTIONS), /go in circles/);
});

const NAME = "a.tf";
const bad: Record<string, { change: (bytes: Buffer) => void; message: RegExp }> = {
  "a path that leads out": {
    change: (bytes) => renameAll(bytes, NAME, "../x"),
    message: /leads out of the directory/,
  },
  "an absolute path": {
    change: (bytes) => renameAll(bytes, NAME, "/etc"),
    message: /leads out of the directory/,
  },
  "a changed byte": {
    change: (bytes) => bytes.writeUInt8(bytes.readUInt8(36) ^ 0x0f, 36),
    message: /cannot be unpacked|not what it says|longer than it says/,
  },
  "a wrong checksum": {
    change: (bytes) => bytes.writeUInt32LE(7, central(bytes) + 16),
    message: /"a\.tf" is refused: its content is not what it says/,
  },
  "a link": {
    change: (bytes) => bytes.writeUInt32LE((0o120777 << 16) >>> 0, central(bytes) + 38),
    message: /link or another special file/,
  },
  "an entry that is encrypted": {
    change: (bytes) => bytes.writeUInt16LE(1, central(bytes) + 8),
    message: /encrypted/,
  },
  "a list that is cut off": {
    change: (bytes) => {
      const at = bytes.length - 22 + 10;
      bytes.writeUInt16LE(bytes.readUInt16LE(at) + 1, at);
    },
    message: /cannot be read: unexpected EOF/,
  },
  "no archive at all": {
    change: (bytes) => bytes.fill(0),
    message: /cannot be read: .*not a zip file/,
  },
};
for (const [what, { change, message }] of Object.entries(bad)) {
  test(`${what} is refused, and nothing lands outside`, async (t) => {
    const directory = await temporaryDirectory(t);
    const { file } = await archive(t, await tree(join(directory, "from")), change);

    await assert.rejects(unzip(file, join(directory, "to", "here")), { code: "invalid", message });

    const outside = await readdir(join(directory, "to")).catch(() => []);
    assert.deepEqual(
      outside.filter((name) => name !== "here"),
      [],
    );
  });
}

test("an archive that says its list lies beyond all positions is refused", async (t) => {
  const directory = await temporaryDirectory(t);
  const { bytes } = await archive(t, await tree(join(directory, "from")));
  const locator = Buffer.alloc(20, 0xff);
  locator.write("PK\x06\x07", "latin1");
  const file = join(directory, "zip64.zip");
  await writeFile(file, Buffer.concat([bytes.subarray(0, -22), locator, bytes.subarray(-22)]));

  await assert.rejects(unzip(file, join(directory, "to")), { code: "too_large" });
});

test("an entry that says it lies beyond all positions is refused", async (t) => {
  const directory = await temporaryDirectory(t);
  const { bytes } = await archive(t, await tree(join(directory, "from")));
  const record = central(bytes);
  bytes.writeUInt32LE(0xffffffff, record + 42);
  bytes.writeUInt16LE(12, record + 30);
  const extra = Buffer.alloc(12, 0xff);
  extra.writeUInt16LE(1, 0);
  extra.writeUInt16LE(8, 2);
  const at = record + 46 + NAME.length;
  const file = join(directory, "zip64.zip");
  await writeFile(file, Buffer.concat([bytes.subarray(0, at), extra, bytes.subarray(at)]));

  await assert.rejects(unzip(file, join(directory, "to")), { code: "invalid" });
});

test("a list that would fill the memory is not read", async (t) => {
  const directory = await temporaryDirectory(t);
  const file = join(directory, "long.zip");
  const zip = new ZipFile();
  const fileComment = "x".repeat(60_000);
  for (let index = 0; index < 600; index++) {
    zip.addReadStream(Readable.from([NOTHING]), `f${index}`, { fileComment });
  }
  zip.end();
  await writeFile(file, zip.outputStream);

  await assert.rejects(unzip(file, join(directory, "to")), {
    code: "too_large",
    message: /the archive's list/,
  });
});

test("more than the limit is not unpacked", async (t) => {
  const directory = await temporaryDirectory(t);
  const { file } = await archive(t, await tree(join(directory, "from")));

  const unpacking = unzip(file, join(directory, "to"), { bytesMax: 1_000 });

  await assert.rejects(unpacking, { code: "too_large" });
});

function renameAll(bytes: Buffer, from: string, to: string): void {
  for (let at = bytes.indexOf(from); at >= 0; at = bytes.indexOf(from, at + 1)) bytes.write(to, at);
}

/** Where the list of files begins; its first entry is a.tf. */
function central(bytes: Buffer): number {
  return bytes.readUInt32LE(bytes.length - 22 + 16);
}
