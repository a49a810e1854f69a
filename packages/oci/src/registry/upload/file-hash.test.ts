import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { readdirSync, readlinkSync } from "node:fs";
import { appendFile, mkdtemp, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { type Algorithm, hashFile } from "./file-hash.ts";

async function emptyFile(t: TestContext): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), "exclave-hash-"));
  t.after(() => rm(directory, { recursive: true }));
  const file = join(directory, "file");
  await writeFile(file, "");
  return file;
}

/** By path, as far as the system tells. */
function openFiles(): string[] {
  return readdirSync("/proc/self/fd").flatMap((fd) => {
    try {
      return [readlinkSync(`/proc/self/fd/${fd}`)];
    } catch {
      return [];
    }
  });
}

const sha256 = (bytes: Uint8Array | string) => createHash("sha256").update(bytes).digest("hex");

test("follows a file as it grows", async (t) => {
  const file = await emptyFile(t);
  const bytes = randomBytes(3_000_000);
  const hash = hashFile(file, "sha256");

  for (let at = 0; at < bytes.length; at += 700_000) {
    await appendFile(file, bytes.subarray(at, at + 700_000));
    hash.reached(Math.min(at + 700_000, bytes.length));
  }

  assert.equal(await hash.digest(bytes.length), sha256(bytes));
});

test("hashes as much as it is asked for, however little it was told before", async (t) => {
  const file = await emptyFile(t);
  await writeFile(file, "what counts and what does not");

  assert.equal(await hashFile(file, "sha256").digest(11), sha256("what counts"));
  assert.equal(await hashFile(file, "sha256").digest(0), sha256(""));
});

test("files do not get into each other's way", async (t) => {
  const files = await Promise.all(Array.from({ length: 20 }, () => emptyFile(t)));
  const hashes = files.map((file) => hashFile(file, "sha512"));
  await Promise.all(files.map((file, n) => writeFile(file, `file ${n}`)));

  const found = await Promise.all(hashes.map((hash, n) => hash.digest(`file ${n}`.length)));

  assert.deepEqual(
    found,
    files.map((_, n) => createHash("sha512").update(`file ${n}`).digest("hex")),
  );
});

test("a file that cannot be read says so when its digest is asked for, with the system's code", async (t) => {
  const file = await emptyFile(t);
  const absent = hashFile(`${file}-absent`, "sha256");
  absent.reached(10);

  await assert.rejects(absent.digest(10), { code: "ENOENT" });

  await writeFile(file, "fine");
  assert.equal(await hashFile(file, "sha256").digest(4), sha256("fine"), "others are not harmed");
});

test("a file that has fewer bytes than it should has no digest", async (t) => {
  const file = await emptyFile(t);
  await writeFile(file, "0123456789");
  const hash = hashFile(file, "sha256");
  await truncate(file, 4);

  await assert.rejects(hash.digest(10), /ends at 4, before 10/);
});

test("there is one digest, and none after it was dropped", async (t) => {
  const file = await emptyFile(t);
  const [asked, dropped] = [hashFile(file, "sha256"), hashFile(file, "sha256")];
  await asked.digest(0);
  dropped.drop();

  await assert.rejects(asked.digest(0), /before/);
  await assert.rejects(dropped.digest(0), /before/);
});

test("a thread that fails takes its files along, and the next file has another one", async (t) => {
  const file = await emptyFile(t);
  await writeFile(file, "fine");
  const failing = hashFile(file, "no such algorithm" as Algorithm);

  await assert.rejects(failing.digest(4), /the thread that hashes uploads failed/);

  assert.equal(await hashFile(file, "sha256").digest(4), sha256("fine"));
});

test("a small file does not wait until the large ones before it are read", async (t) => {
  const large = await emptyFile(t);
  const size = 48 * 1024 * 1024;
  await truncate(large, size);
  const small = await emptyFile(t);
  await writeFile(small, "small");
  // One for every thread there may be.
  const hashes = Array.from({ length: 4 }, () => hashFile(large, "sha512"));
  t.after(() => hashes.forEach((hash) => hash.drop()));
  for (const hash of hashes) hash.reached(size);
  const order: string[] = [];

  const ended = hashes.map((hash) => hash.digest(size).then(() => order.push("large")));
  await hashFile(small, "sha256").digest(5);
  order.push("small");
  await Promise.all(ended);

  assert.equal(order[0], "small");
});

test("a file that waits for more bytes is not kept open", async (t) => {
  const file = await emptyFile(t);
  await writeFile(file, "some bytes");
  const hash = hashFile(file, "sha256");
  hash.reached(4);
  await hashFile(file, "sha256").digest(10);

  for (let look = 0; look < 100 && openFiles().includes(file); look++) await sleep(10);

  assert.ok(!openFiles().includes(file));
  assert.equal(await hash.digest(10), sha256("some bytes"));
});

for (const last of ["drop()", "reached(1)", "digest(1)"]) {
  test(`a program whose last call was ${last} ends by itself`, async (t) => {
    const file = await emptyFile(t);
    await writeFile(file, "x");
    const script = `
      import { hashFile } from ${JSON.stringify(import.meta.resolve("./file-hash.ts"))};
      await hashFile(${JSON.stringify(file)}, "sha256").${last};
    `;

    const child = spawn(process.execPath, ["--input-type=module", "--eval", script], {
      stdio: "inherit",
      timeout: 10_000,
    });

    assert.deepEqual(await once(child, "exit"), [0, null]);
  });
}
