import assert from "node:assert/strict";
import { test } from "node:test";
import { asFailure } from "./failure.ts";
import { systemFailure } from "./system-failure.ts";

const error = (code: string, syscall = "open", path?: string) =>
  Object.assign(new Error(`${code}: raw`), { code, syscall, ...(path && { path }) });

test("an error of the file system says which file, what is wrong and what to do", () => {
  assert.deepEqual(systemFailure(error("EROFS", "mkdir", "/srv/exclave")), {
    code: "conflict",
    message:
      "/srv/exclave cannot be written: the file system is read-only; use a directory that can be written",
  });
  assert.equal(systemFailure(error("ENOSPC", "write"))?.code, "disk_full");
  assert.equal(systemFailure(error("EMFILE"))?.code, "unavailable");
});

test("a path that is too long is not repeated whole", () => {
  const { message = "" } = systemFailure(error("ENAMETOOLONG", "open", "x".repeat(5_000))) ?? {};

  assert.ok(message.length < 300);
  assert.match(message, /the path is too long; use a shorter directory/);
});

test("what is thrown by the file system is a failure with its sentence, not a bug", () => {
  const failure = asFailure(error("EACCES", "scandir", "/root"));

  assert.equal(failure.code, "conflict");
  assert.match(failure.message, /^\/root cannot be read: permission is denied/);
  assert.ok(failure.cause instanceof Error);
});

test("everything else stays what it is", () => {
  assert.equal(systemFailure(new Error("EROFS")), undefined);
  assert.equal(systemFailure({ code: "EROFS" }), undefined);
  assert.equal(systemFailure(error("EWHATEVER")), undefined);
  assert.equal(asFailure(new TypeError("x")).code, "bug");
});
