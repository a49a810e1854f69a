import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { readdirSync, readlinkSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { PassThrough, Readable } from "node:stream";
import { describe, type TestContext, test } from "node:test";
import { setImmediate, setTimeout as sleep } from "node:timers/promises";
import { type BlobFiles, createBlobFiles } from "../../content/blob-files.ts";
import { digestOf } from "../../content/digest.ts";
import { temporaryDirectory } from "../../testing/temporary-directory.ts";
import { createUploads, type Upload, type Uploads } from "./uploads.ts";

interface Options {
  readonly uploadsMax?: number;
  readonly blobs?: Partial<BlobFiles>;
}

async function open(t: TestContext, { uploadsMax = 100, blobs = {} }: Options = {}) {
  const directory = await temporaryDirectory(t);
  const clock = { now: 0 };
  const files = { ...createBlobFiles(directory), ...blobs };
  const uploads = createUploads(files, () => clock.now, { uploadsMax });
  t.after(() => uploads.close());
  const left = () => readdir(join(directory, "tmp")).catch(() => []);
  return { uploads, clock, directory, left };
}

function append(uploads: Uploads, { repository, id }: Upload, body: Readable | string) {
  const bytes = typeof body === "string" ? Readable.from([Buffer.from(body)]) : body;
  return uploads.take(repository, id, (own) => own.append(bytes));
}

/** What was kept. */
async function finish(uploads: Uploads, { repository, id }: Upload, bytes: Buffer | string) {
  let kept: Buffer | undefined;
  await uploads.take(repository, id, (own) =>
    own.finish(digestOf(bytes), async (file) => {
      kept = await readFile(file);
    }),
  );
  return kept;
}

/** How many descriptors this process has of files below a directory. */
function openBelow(directory: string): number {
  const open = readdirSync("/proc/self/fd").filter((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`).startsWith(directory);
    } catch {
      return false;
    }
  });
  return open.length;
}

describe("uploads", () => {
  test("whoever comes back after a break is told of every byte that had arrived", async (t) => {
    const { uploads } = await open(t);
    const bytes = randomBytes(2_500_000);
    const upload = await uploads.begin("a", "sha256");
    const body = new PassThrough({ highWaterMark: bytes.length });
    const broken = append(uploads, upload, body);
    broken.catch(() => undefined);
    body.write(bytes.subarray(0, 1_500_000));
    await setImmediate();

    body.destroy();
    const found = await uploads.find("a", upload.id);

    assert.equal(found.size, 1_500_000);
    await assert.rejects(broken, /connection ended/);
    await append(uploads, found, Readable.from([bytes.subarray(1_500_000)]));
    assert.deepEqual(await finish(uploads, found, bytes), bytes);
  });

  test("a later request has the upload, and the earlier one adds nothing any more", async (t) => {
    const { uploads } = await open(t);
    const upload = await uploads.begin("a", "sha256");
    const body = new PassThrough();
    const first = append(uploads, upload, body);
    first.catch(() => undefined);
    body.write("one");
    await setImmediate();

    await append(uploads, upload, "two");

    assert.ok(body.destroyed);
    await assert.rejects(first, /connection ended/);
    assert.equal(String(await finish(uploads, upload, "onetwo")), "onetwo");
  });

  test("of many requests at once the bytes do not mix, and the last one is whole", async (t) => {
    const { uploads, directory, left } = await open(t);
    const upload = await uploads.begin("a", "sha256");
    const bodies = ["a", "b", "c", "d"].map((letter) =>
      Readable.from([Buffer.alloc(3_000_000, letter), Buffer.alloc(3_000_000, letter)]),
    );

    const outcomes = await Promise.allSettled(bodies.map((body) => append(uploads, upload, body)));

    assert.equal(outcomes.at(-1)?.status, "fulfilled");
    const [name = ""] = await left();
    const text = await readFile(join(directory, "tmp", name), "latin1");
    assert.match(text, /^a*b*c*d+$/);
    assert.ok(upload.size >= 6_000_000);
  });

  test("asking how far it is leaves a request at work alone", async (t) => {
    const { uploads } = await open(t);
    const upload = await uploads.begin("a", "sha256");
    const body = new PassThrough();
    const first = append(uploads, upload, body);
    body.write("one");

    const found = await uploads.find("a", upload.id);

    assert.equal(found.size, 3);
    body.end("more");
    await first;
    assert.equal(String(await finish(uploads, upload, "onemore")), "onemore");
  });

  test("one that is being finished is not cut off by whoever comes then", async (t) => {
    const { uploads } = await open(t);
    const upload = await uploads.begin("a", "sha256");
    await append(uploads, upload, "bytes");

    const finished = finish(uploads, upload, "bytes");
    const cancelled = uploads.take("a", upload.id, (own) => own.cancel());

    await assert.rejects(cancelled, { code: "BLOB_UPLOAD_UNKNOWN" });
    assert.equal(String(await finished), "bytes");
  });

  test("another digest than the bytes have is refused, and nothing is left of them", async (t) => {
    const { uploads, left } = await open(t);
    const upload = await uploads.begin("a", "sha256");
    await append(uploads, upload, "bytes");

    const finished = finish(uploads, upload, "others");

    await assert.rejects(finished, { code: "DIGEST_INVALID" });
    await assert.rejects(uploads.find("a", upload.id), { code: "BLOB_UPLOAD_UNKNOWN" });
    assert.deepEqual(await left(), []);
  });

  test("an upload belongs to its repository", async (t) => {
    const { uploads } = await open(t);
    const { id } = await uploads.begin("a", "sha256");

    await assert.rejects(uploads.find("b", id), { code: "BLOB_UPLOAD_UNKNOWN" });
  });

  test("nothing is a blob as well", async (t) => {
    const { uploads } = await open(t);
    const upload = await uploads.begin("a", "sha512");

    assert.equal(String(await finish(uploads, upload, "")), "");
  });
});

describe("an upload that waits for its client", () => {
  test("has no file before its first byte", async (t) => {
    const { uploads, left } = await open(t);
    await uploads.begin("a", "sha256");

    assert.deepEqual(await left(), []);
  });

  test("holds no descriptor", async (t) => {
    const { uploads, directory } = await open(t);
    const begun = Array.from({ length: 50 }, () => uploads.begin("a", "sha256"));
    const all = await Promise.all(begun);
    for (const upload of all) await append(uploads, upload, "first half ");

    for (let look = 0; look < 100 && openBelow(directory) > 0; look++) await sleep(10);

    assert.equal(openBelow(directory), 0);
    for (const upload of all) await append(uploads, upload, "second half");
    const kept = await Promise.all(
      all.map((upload) => finish(uploads, upload, "first half second half")),
    );
    assert.equal(kept.length, 50);
  });

  test("is dropped after an hour, unless its owner comes back while others are", async (t) => {
    const { uploads, clock, left } = await open(t);
    const begun = Array.from({ length: 20 }, () => uploads.begin("a", "sha256"));
    const all = await Promise.all(begun);
    for (const upload of all) await append(uploads, upload, "first half ");
    const [first = assert.fail(), last = assert.fail()] = [all[0], all.at(-1)];
    clock.now = 2 * 60 * 60 * 1_000;

    const dropping = uploads.dropIdle();
    const body = new PassThrough();
    const appending = append(uploads, last, body);
    body.write("second ");
    await dropping;
    body.end("half");
    await appending;

    await assert.rejects(uploads.find("a", first.id), { code: "BLOB_UPLOAD_UNKNOWN" });
    assert.equal((await left()).length, 1);
    assert.ok(await finish(uploads, last, "first half second half"));
  });

  test("gives way to a new one when there are too many, the oldest without bytes first", async (t) => {
    const { uploads } = await open(t, { uploadsMax: 3 });
    const used = await uploads.begin("a", "sha256");
    await append(uploads, used, "bytes");
    const [older, newer] = [await uploads.begin("a", "sha256"), await uploads.begin("a", "sha256")];

    const newest = await uploads.begin("a", "sha256");

    await assert.rejects(uploads.find("a", older.id), { code: "BLOB_UPLOAD_UNKNOWN" });
    for (const { id } of [used, newer, newest]) await uploads.find("a", id);
  });

  test("stays if it has bytes, and there is no new one", async (t) => {
    const { uploads } = await open(t, { uploadsMax: 2 });
    for (const text of ["one", "two"]) {
      await append(uploads, await uploads.begin("a", "sha256"), text);
    }

    await assert.rejects(uploads.begin("a", "sha256"), { code: "TOOMANYREQUESTS", status: 429 });
  });
});

describe("an upload whose file cannot be made", () => {
  const failing = (code: string) => ({
    temporary: () => Promise.reject(Object.assign(new Error(code), { code })),
  });

  test("says that there is no room, also when it is names there is no room for", async (t) => {
    const { uploads } = await open(t, { blobs: failing("ENOSPC") });
    const upload = await uploads.begin("a", "sha256");

    await assert.rejects(append(uploads, upload, "bytes"), { code: "disk_full" });
  });

  test("says that too many files are open, as something that passes", async (t) => {
    const { uploads } = await open(t, { blobs: failing("EMFILE") });
    const upload = await uploads.begin("a", "sha256");

    await assert.rejects(append(uploads, upload, "bytes"), {
      code: "TOOMANYREQUESTS",
      status: 503,
    });
  });
});
