import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { type TestContext, test } from "node:test";
import { describeObjectStore } from "../testing/describe-object-store.ts";
import { type FakeS3, startFakeS3 } from "../testing/fake-s3.ts";
import type { S3Patience } from "./s3-exchange.ts";
import { createS3ObjectStore, type S3ObjectStore } from "./s3-object-store.ts";

const SHORT = { pauseMs: 1, pauseMsMax: 5 };

describeObjectStore("S3", async (t) => (await open(t)).store);

test("asks again when the store is busy, breaks off or falls silent", async (t) => {
  const { store, fake } = await open(t, { idleMs: 200 });
  const faults = [
    { kind: "answer", status: 503, code: "SlowDown" },
    { kind: "cut" },
    { kind: "late", ms: 2_000 },
    { kind: "answer", status: 500, code: "InternalError" },
  ] as const;
  let next = 0;
  fake.fault = () => faults[next++];

  await store.write("a", Buffer.from("it got there"));

  assert.equal(String(await store.read("a")), "it got there");
  assert.equal(fake.requests.filter((name) => name.startsWith("PUT")).length, 5);
});

test("gives up after a few attempts, and says which store cannot be reached", async (t) => {
  const { store, fake } = await open(t);
  fake.isAway = true;

  await assert.rejects(store.write("a", Buffer.from("x")), /cannot reach bucket tenant at 127/);
  assert.equal(fake.requests.length, 5);
});

test("says what is wrong in a sentence, and does not ask again", async (t) => {
  const { store, fake } = await open(t);
  for (const [status, code, sentence] of [
    [404, "NoSuchBucket", /there is no bucket tenant at .*: make it/],
    [403, "AccessDenied", /does not let these credentials in/],
    [403, "InvalidAccessKeyId", /does not know this access key/],
    [403, "SignatureDoesNotMatch", /refuses the signature/],
    [403, "RequestTimeTooSkewed", /the clocks of this machine and of .* are too far apart/],
    [418, "Teapot", /answers 418 Teapot/],
  ] as const) {
    fake.fault = () => ({ kind: "answer", status, code });
    fake.requests.length = 0;
    await assert.rejects(store.check(), sentence);
    await assert.rejects(store.write("a", Buffer.from("x")), sentence);
    assert.equal(fake.requests.length, 2, code);
  }
});

test("says nothing of its credentials", async (t) => {
  const { store, fake } = await open(t);
  fake.fault = () => ({ kind: "answer", status: 403, code: "AccessDenied" });

  const failure = await store.check().catch((reason: unknown) => reason);

  const { secretAccessKey } = fake.settings.credentials;
  assert.ok(failure instanceof Error);
  assert.ok(!JSON.stringify([failure.message, String(failure.cause)]).includes(secretAccessKey));
});

test("takes an upload for done whose last answer was lost", async (t) => {
  const { store, fake } = await open(t);
  let isLost = false;
  fake.fault = (name) => {
    if (isLost || !/^POST .*uploadId=/.test(name)) return undefined;
    isLost = true;
    return { kind: "lost" };
  };
  const bytes = randomBytes(20 * 1024 * 1024);

  const upload = store.upload("large");
  await upload.write(bytes);
  await upload.complete();

  assert.ok(isLost);
  assert.ok((await store.read("large", { from: 0, to: 9 }))?.equals(bytes.subarray(0, 10)));
  assert.equal((await store.head("large"))?.sizeBytes, bytes.length);
});

test("sends a part again that did not get through, and the object is the same", async (t) => {
  const { store, fake } = await open(t);
  const failed = new Set<string>();
  fake.fault = (name) => {
    if (!name.includes("partNumber=") || failed.has(name)) return undefined;
    failed.add(name);
    return { kind: failed.size % 2 === 0 ? "cut" : "lost" };
  };
  const bytes = randomBytes(20 * 1024 * 1024);

  const upload = store.upload("large");
  await upload.write(bytes);
  await upload.complete();

  assert.equal(failed.size, 3);
  assert.ok(fake.objects.get("a/prefix/large")?.bytes.equals(bytes));
});

async function open(
  t: TestContext,
  patience: Partial<S3Patience> = {},
): Promise<{ readonly store: S3ObjectStore; readonly fake: FakeS3 }> {
  const fake = await startFakeS3();
  const store = createS3ObjectStore({
    settings: fake.settings,
    patience: { ...SHORT, ...patience },
  });
  t.after(async () => {
    store.close();
    await fake.close();
  });
  return { store, fake };
}
