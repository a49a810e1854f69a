import assert from "node:assert/strict";
import { test } from "node:test";
import { readS3Settings } from "./s3-settings.ts";

const keys = { accessKeyId: "id", secretAccessKey: "key" };

test("reads bucket, prefix, endpoint and region", () => {
  const settings = readS3Settings({
    address: "s3://tenant/some/where/?endpoint=https://store.example:9000&region=eu-1",
    ...keys,
  });

  assert.equal(settings.bucket, "tenant");
  assert.equal(settings.prefix, "some/where/");
  assert.equal(settings.region, "eu-1");
  assert.equal(settings.endpoint?.host, "store.example:9000");
});

test("takes the region from the environment, and asks for it where AWS needs one", () => {
  assert.equal(readS3Settings({ address: "s3://tenant", region: "eu-2", ...keys }).region, "eu-2");
  assert.equal(readS3Settings({ address: "s3://tenant", region: "eu-2", ...keys }).prefix, "");
  assert.throws(() => readS3Settings({ address: "s3://tenant", ...keys }), /region is not given/);
});

test("refuses what it cannot use, and never repeats a secret", () => {
  const at = (address: string) => () => readS3Settings({ address, region: "eu-1", ...keys });

  assert.throws(at("https://tenant"), /is not s3:/);
  assert.throws(at("s3://id:hidden@tenant"), (reason: Error) => {
    assert.match(reason.message, /holds credentials/);
    return !reason.message.includes("hidden");
  });
  assert.throws(at("s3://T"), /cannot be a bucket's name/);
  assert.throws(at("s3://tenant/a//b"), /cannot be a prefix/);
  assert.throws(at("s3://tenant?secret=1"), /has no secret/);
  assert.throws(at("s3://tenant?endpoint=ftp://x"), /not an http or https URL/);
  assert.throws(at("s3://tenant?endpoint=http://store.example"), /http/);
  assert.throws(
    () => readS3Settings({ address: "s3://tenant", region: "eu-1" }),
    /AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY/,
  );
});
