import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Failure } from "@exclave/core";
import { findInLayout, placeInLayout } from "./layout-names.ts";
import { originOf, parseReference } from "./reference.ts";

const DIGEST = `sha256:${"a".repeat(64)}`;

describe("a reference", () => {
  for (const [text, expected] of [
    ["r.example.com/a/b", { host: "r.example.com", repository: "a/b" }],
    ["localhost:5000/a:v1", { host: "localhost:5000", repository: "a", tag: "v1" }],
    [`127.0.0.1:1/a@${DIGEST}`, { host: "127.0.0.1:1", repository: "a", digest: DIGEST }],
    [`r.io/a:v1@${DIGEST}`, { host: "r.io", repository: "a", tag: "v1", digest: DIGEST }],
    ["docker://r.io/a:v1", { host: "r.io", repository: "a", tag: "v1" }],
    ["oci://127.0.0.1:5000/a:v1", { host: "127.0.0.1:5000", repository: "a", tag: "v1" }],
    ["http://r.io/a:v1", { transport: "http", host: "r.io", repository: "a", tag: "v1" }],
    ["https://[::1]:5/a", { transport: "https", host: "[::1]:5", repository: "a" }],
    ["docker.io/nginx:1", { host: "docker.io", repository: "library/nginx", tag: "1" }],
    ["docker.io/team/app", { host: "docker.io", repository: "team/app" }],
  ] as const) {
    test(`${text} is in a registry`, () => {
      const nothing = { transport: undefined, tag: undefined, digest: undefined };
      assert.deepEqual(parseReference(text), { kind: "registry", ...nothing, ...expected });
    });
  }

  for (const [text, kind, path, name, digest] of [
    ["oci:dir", "layout", "dir", undefined, undefined],
    ["oci:/some/dir:v1", "layout", "/some/dir", "v1", undefined],
    ["oci:dir@2:v1", "layout", "dir@2", "v1", undefined],
    ["oci:dir:apps/crm:v1", "layout", "dir", "apps/crm:v1", undefined],
    [`oci:dir@${DIGEST}`, "layout", "dir", undefined, DIGEST],
    [`oci:dir:${DIGEST}`, "layout", "dir", undefined, DIGEST],
    [`oci:dir:v1@${DIGEST}`, "layout", "dir", "v1", DIGEST],
    ["oci-archive:x.tar:v1", "archive", "x.tar", "v1", undefined],
  ] as const) {
    test(`${text} is on disk`, () => {
      assert.deepEqual(parseReference(text), { kind, path, name, digest });
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
    "oci://a/b",
    "oci-archive://r.io/a",
    "https:///a",
    "user:secret@r.io/a:v1",
  ]) {
    test(`${JSON.stringify(text)} is none`, () => {
      const isInvalid = (reason: unknown) => reason instanceof Failure && reason.code === "invalid";
      assert.throws(() => parseReference(text), isInvalid);
    });
  }
});

describe("a registry", () => {
  for (const [text, plainHttp, origin] of [
    ["r.io/a", false, "https://r.io"],
    ["r.io/a", true, "http://r.io"],
    ["http://r.io/a", false, "http://r.io"],
    ["https://r.io/a", true, "https://r.io"],
    ["localhost:5000/a", false, "http://localhost:5000"],
    ["127.3.2.1:5000/a", false, "http://127.3.2.1:5000"],
    ["[::1]:5000/a", false, "http://[::1]:5000"],
    ["https://127.0.0.1/a", false, "https://127.0.0.1"],
    ["127.example.com/a", false, "https://127.example.com"],
    ["localhost.example.com/a", false, "https://localhost.example.com"],
    ["docker.io/a", false, "https://registry-1.docker.io"],
  ] as const) {
    test(`named as ${text}${plainHttp ? " with --plain-http" : ""} is spoken to at ${origin}`, () => {
      const parsed = parseReference(text);
      assert.ok(parsed.kind === "registry");
      assert.equal(originOf(parsed, plainHttp), origin);
    });
  }
});

describe("names in a layout", () => {
  const entry = (name: string | undefined, repository = "a") => ({
    name,
    repository,
    digest: `sha256:${(name ?? "x").length.toString().repeat(64).slice(0, 64)}` as never,
  });

  const called = (name: string | undefined, digest?: string) => ({ name, digest: digest as never });

  test("are found whole, by their tag alone, or not at all where there is but one", () => {
    const [one, two] = [entry("a:v1"), entry("b/c:v22", "b/c")];

    assert.equal(findInLayout([one, two], called("b/c:v22"), "here"), two);
    assert.equal(findInLayout([one, two], called("v1"), "here"), one);
    assert.equal(findInLayout([entry("v1", "x/y"), two], called("x/y:v1"), "here").name, "v1");
    assert.equal(findInLayout([entry(undefined), one], called(undefined), "here"), one);
  });

  test("must be unmistakable", () => {
    const both = [entry("a:v1"), entry("b:v1", "b")];

    assert.throws(
      () => findInLayout(both, called("v1"), "here"),
      /more than one of these: a:v1, b:v1/,
    );
    assert.throws(() => findInLayout(both, called(undefined), "here"), /say which is meant/);
    assert.throws(
      () => findInLayout(both, called("v2"), "here"),
      /there is no v2 in here, but a:v1, b:v1/,
    );
  });

  test("of something new come from what was asked, and else from where it was", () => {
    const cameFrom = { repository: "apps/crm", tag: "v1" };

    assert.deepEqual(placeInLayout(called("x/y:z"), cameFrom), { repository: "x/y", tag: "z" });
    assert.deepEqual(placeInLayout(called("z"), cameFrom), { repository: "apps/crm", tag: "z" });
    assert.deepEqual(placeInLayout(called(undefined), cameFrom), cameFrom);
    const onlyDigest = { repository: "apps/crm", tag: undefined };
    assert.deepEqual(placeInLayout(called(undefined, DIGEST), cameFrom), onlyDigest);
  });
});
