import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { mkdtemp, open, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { openThreadFile } from "./write-thread.ts";

async function file(t: TestContext, flags = "wx") {
  const directory = await mkdtemp(join(tmpdir(), "exclave-thread-"));
  t.after(() => rm(directory, { recursive: true }));
  const path = join(directory, "file");
  if (flags === "r") await (await open(path, "wx")).close();
  const handle = await open(path, flags);
  t.after(() => handle.close());
  return { path, fd: handle.fd };
}

const sha256 = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex");

test("what is written is in the file, in its place, and in the hash", async (t) => {
  const { path, fd } = await file(t);
  const bytes = randomBytes(3_000_000);
  const thread = openThreadFile("sha256", fd);

  for (let at = 0; at < bytes.length; at += 1_000_000) {
    // Chunks with memory of their own, and one that is a part of something larger.
    const own = Buffer.from(new Uint8Array(bytes.subarray(at, at + 400_000)).buffer);
    await thread.write([own, bytes.subarray(at + 400_000, at + 1_000_000)], at);
    assert.equal(own.length, 0, "its memory was handed over");
  }

  assert.equal(await thread.digest(), sha256(bytes));
  assert.ok(bytes.equals(await readFile(path)), "and what it was a part of is untouched");
});

test("files do not get into each other's way", async (t) => {
  const [one, two] = [await file(t), await file(t)];
  const threads = [openThreadFile("sha256", one.fd), openThreadFile("sha512", two.fd)];

  await Promise.all(threads.map((thread, n) => thread.write([Buffer.from(`file ${n}`)], 0)));

  const [first, second] = await Promise.all(threads.map((thread) => thread.digest()));
  assert.equal(first, sha256(Buffer.from("file 0")));
  assert.equal(second, createHash("sha512").update("file 1").digest("hex"));
  assert.equal(await readFile(two.path, "utf8"), "file 1");
});

test("a write that fails says why, with the system's code, and the thread goes on", async (t) => {
  const closed = await file(t, "r");
  const thread = openThreadFile("sha256", closed.fd);

  await assert.rejects(thread.write([Buffer.from("x")], 0), { code: "EBADF" });
  await thread.drop();

  const { fd } = await file(t);
  const next = openThreadFile("sha256", fd);
  await next.write([Buffer.from("y")], 0);
  assert.equal(await next.digest(), sha256(Buffer.from("y")));
});

test("a file that was dropped has no hash any more", async (t) => {
  const { fd } = await file(t);
  const thread = openThreadFile("sha256", fd);
  await thread.write([Buffer.from("x")], 0);

  await thread.drop();

  await assert.rejects(thread.digest(), /not open/);
});
