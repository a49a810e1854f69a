import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Failure } from "@exclave/core";
import { findInLayout, placeInLayout } from "./layout-names.ts";
import { parseReference } from "./reference.ts";

const DIGEST = `sha256:${"a".repeat(64)}`;

describe("a reference", () => {
  for (const [text, expected] of [
    ["r.example.com/a/b", { host: "r.example.com", repository: "a/b", reference: undefined }],
    ["localhost:5000/a:v1", { host: "localhost:5000", repository: "a", reference: "v1" }],
    [`127.0.0.1:1/a@${DIGEST}`, { host: "127.0.0.1:1", repository: "a", reference: DIGEST }],
    [`r.io/a:v1@${DIGEST}`, { host: "r.io", repository: "a", reference: DIGEST }],
    ["docker://r.io/a:v1", { host: "r.io", repository: "a", reference: "v1" }],
  ] as const) {
    test(`${text} is in a registry`, () => {
      assert.deepEqual(parseReference(text), { kind: "registry", ...expected });
    });
  }

  for (const [text, kind, path, name] of [
    ["oci:dir", "layout", "dir", undefined],
    ["oci:/some/dir:v1", "layout", "/some/dir", "v1"],
    ["oci:dir:apps/crm:v1", "layout", "dir", "apps/crm:v1"],
    [`oci:dir@${DIGEST}`, "layout", "dir", DIGEST],
    ["oci-archive:x.tar:v1", "archive", "x.tar", "v1"],
  ] as const) {
    test(`${text} is on disk`, () => {
      assert.deepEqual(parseReference(text), { kind, path, name });
    });
  }

  for (const text of [
    "",
    "crm",
    "apps/crm:v1",
    "r.io/../x",
    "r.io/A:v1",
    "r.io/a@sha256:12",
    "oci:",
  ]) {
    test(`${JSON.stringify(text)} is none`, () => {
      const isInvalid = (reason: unknown) => reason instanceof Failure && reason.code === "invalid";
      assert.throws(() => parseReference(text), isInvalid);
    });
  }
});

describe("names in a layout", () => {
  const entry = (name: string | undefined, repository = "a") => ({
    name,
    repository,
    digest: `sha256:${(name ?? "x").length.toString().repeat(64).slice(0, 64)}` as never,
  });

  test("are found whole, by their tag alone, or not at all where there is but one", () => {
    const [one, two] = [entry("a:v1"), entry("b/c:v22", "b/c")];

    assert.equal(findInLayout([one, two], "b/c:v22", "here"), two);
    assert.equal(findInLayout([one, two], "v1", "here"), one);
    assert.equal(findInLayout([entry(undefined), one], undefined, "here"), one);
  });

  test("must be unmistakable", () => {
    const both = [entry("a:v1"), entry("b:v1", "b")];

    assert.throws(() => findInLayout(both, "v1", "here"), /more than one of these: a:v1, b:v1/);
    assert.throws(() => findInLayout(both, undefined, "here"), /say which is meant/);
    assert.throws(() => findInLayout(both, "v2", "here"), /there is no v2 in here, but a:v1, b:v1/);
  });

  test("of something new come from what was asked, and else from where it was", () => {
    const cameFrom = { repository: "apps/crm", tag: "v1" };

    assert.deepEqual(placeInLayout("x/y:z", cameFrom), { repository: "x/y", tag: "z" });
    assert.deepEqual(placeInLayout("z", cameFrom), { repository: "apps/crm", tag: "z" });
    assert.deepEqual(placeInLayout(undefined, cameFrom), cameFrom);
  });
});
