import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import {
  chmod,
  mkdir,
  mkdtemp,
  readFile,
  readlink,
  rm,
  stat,
  symlink,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { directoryArchive, ownedArchive } from "./archives.ts";

const OWNER = { uid: 65_532, gid: 65_532 };

test("a directory becomes an archive that others' programs unpack as it was", async (t) => {
  const from = await directory(t);
  const long = `${"deep/".repeat(30)}file.txt`;
  await mkdir(join(from, long, ".."), { recursive: true });
  await writeFile(join(from, long), "deep");
  await writeFile(join(from, "run.sh"), "#!/bin/sh\n");
  await chmod(join(from, "run.sh"), 0o755);
  await symlink("run.sh", join(from, "link"));

  const to = await unpacked(t, directoryArchive(from, OWNER));

  assert.equal(await readFile(join(to, long), "utf8"), "deep");
  assert.equal((await stat(join(to, "run.sh"))).mode & 0o777, 0o700);
  assert.equal((await stat(join(to, long))).mode & 0o777, 0o600);
  assert.equal(await readlink(join(to, "link")), "run.sh");
});

test("small files are their owner's, and so is the directory they are put into", async (t) => {
  const bytes = ownedArchive({ owner: OWNER, mode: 0o755, files: { "registry/token.key": "k" } });

  const listed = list(bytes);

  assert.deepEqual(
    listed.map(([mode, owner, path]) => `${mode} ${owner} ${path}`),
    [
      "drwxr-xr-x 65532/65532 ./",
      "drwx------ 65532/65532 ./registry/",
      "-rw------- 65532/65532 ./registry/token.key",
    ],
  );
  const to = await unpacked(t, [bytes]);
  assert.equal(await readFile(join(to, "registry/token.key"), "utf8"), "k");
});

test("a file's name stays where it is put", () => {
  for (const path of ["../x", "/x", "a/../../x", "a//b", ""]) {
    assert.throws(() => ownedArchive({ owner: OWNER, files: { [path]: "" } }), { code: "invalid" });
  }
});

function list(bytes: Uint8Array): string[][] {
  const text = execFileSync("tar", ["--numeric-owner", "-tvf", "-"], { input: bytes }).toString();
  return text
    .trim()
    .split("\n")
    .map((line) => line.split(/\s+/))
    .map(([mode = "", owner = "", , , , path = ""]) => [mode, owner, path]);
}

async function unpacked(
  t: TestContext,
  chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
): Promise<string> {
  const to = await directory(t);
  const all: Uint8Array[] = [];
  for await (const chunk of chunks) all.push(chunk);
  execFileSync("tar", ["--no-same-owner", "-xpf", "-", "-C", to], { input: Buffer.concat(all) });
  return to;
}

async function directory(t: TestContext): Promise<string> {
  const made = await mkdtemp(join(tmpdir(), "exclave-archives-"));
  t.after(() => rm(made, { recursive: true, force: true }));
  return made;
}
