import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough, Readable } from "node:stream";
import { describe, type TestContext, test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { createBlobFiles } from "../blob-files.ts";
import { digestOf } from "../digest.ts";
import { createUploads } from "./uploads.ts";

async function open(t: TestContext) {
  const directory = await mkdtemp(join(tmpdir(), "exclave-uploads-"));
  const uploads = createUploads(createBlobFiles(directory), Date.now);
  t.after(async () => {
    await uploads.close();
    await rm(directory, { recursive: true });
  });
  return { uploads, left: () => readdir(join(directory, "tmp")) };
}

describe("uploads", () => {
  test("whoever comes back after a break is told of every byte that had arrived", async (t) => {
    const { uploads } = await open(t);
    const bytes = randomBytes(2_500_000);
    const upload = await uploads.begin("a", "sha256");
    const body = new PassThrough({ highWaterMark: bytes.length });
    const broken = uploads.append(upload, body);
    broken.catch(() => undefined);
    body.write(bytes.subarray(0, 1_500_000));
    await setImmediate();

    body.destroy();
    const found = await uploads.find("a", upload.id);

    assert.equal(found.size, 1_500_000);
    await assert.rejects(broken, /connection ended/);
    await uploads.append(found, Readable.from([bytes.subarray(1_500_000)]));
    let kept: Buffer | undefined;
    await uploads.finish(found, digestOf(bytes), async (file) => {
      kept = await readFile(file);
    });
    assert.ok(kept?.equals(bytes));
  });

  test("two requests at once do not mix their bytes", async (t) => {
    const { uploads } = await open(t);
    const upload = await uploads.begin("a", "sha256");
    const body = new PassThrough();
    const first = uploads.append(upload, body);

    const second = uploads.append(
      await uploads.find("a", upload.id),
      Readable.from([Buffer.from("other")]),
    );

    await assert.rejects(second, /another request/);
    body.end("one");
    await first;
    assert.equal((await uploads.find("a", upload.id)).size, 3);
  });

  test("another digest than the bytes have is refused, and nothing is left of them", async (t) => {
    const { uploads, left } = await open(t);
    const upload = await uploads.begin("a", "sha256");
    await uploads.append(upload, Readable.from([Buffer.from("bytes")]));

    const finished = uploads.finish(upload, digestOf(Buffer.from("others")), () =>
      assert.fail("it was kept"),
    );

    await assert.rejects(finished, { code: "DIGEST_INVALID" });
    await assert.rejects(uploads.find("a", upload.id), { code: "BLOB_UPLOAD_UNKNOWN" });
    assert.deepEqual(await left(), []);
  });

  test("an upload belongs to its repository", async (t) => {
    const { uploads } = await open(t);
    const { id } = await uploads.begin("a", "sha256");

    await assert.rejects(uploads.find("b", id), { code: "BLOB_UPLOAD_UNKNOWN" });
  });
});
