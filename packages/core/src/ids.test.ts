import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { ComponentName, Digest, idFromBytes, JobId, JobName, jobName } from "./ids.ts";

test("names people choose stay plain", () => {
  const fine = ["a", "api", "api-image", "a1", "a".repeat(40)];
  const wrong = ["", "A", "1a", "-a", "a-", "a_b", "a/b", "..", "a".repeat(41)];

  for (const name of fine) assert.ok(ComponentName.safeParse(name).success, name);
  for (const name of wrong) assert.ok(!ComponentName.safeParse(name).success, name);
});

test("a digest is sha256 or sha512 in full, lower case", () => {
  assert.ok(Digest.safeParse(`sha256:${"a".repeat(64)}`).success);
  assert.ok(Digest.safeParse(`sha512:${"a".repeat(128)}`).success);
  for (const wrong of [`sha256:${"A".repeat(64)}`, "sha256:abc", `md5:${"a".repeat(32)}`]) {
    assert.ok(!Digest.safeParse(wrong).success, wrong);
  }
});

test("ten random bytes make an id, and other bytes another", () => {
  const ten = fc.uint8Array({ minLength: 10, maxLength: 10 });
  fc.assert(
    fc.property(ten, ten, (one, other) => {
      const id = idFromBytes("j", one);

      assert.ok(JobId.safeParse(id).success, id);
      assert.equal(id === idFromBytes("j", other), Buffer.compare(one, other) === 0);
    }),
  );
});

test("the name of an attempt follows from its ids", () => {
  const name = jobName("jabcdefghijklmnop", 2);

  assert.equal(name, "j-jabcdefghijklmnop-2");
  assert.ok(JobName.safeParse(name).success);
  assert.throws(() => jobName("../etc", 1));
});
