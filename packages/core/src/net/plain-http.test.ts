import assert from "node:assert/strict";
import { test } from "node:test";
import { Failure } from "../failure.ts";
import { isInTheClear, isLoopback, refusePlainHttp, refusePlainListener } from "./plain-http.ts";

test("knows loopback in every spelling, and nothing that only looks like it", () => {
  for (const host of ["localhost", "127.0.0.1", "127.8.9.1", "::1", "[::1]", "::ffff:127.0.0.1"]) {
    assert.ok(isLoopback(host), host);
  }
  const others = [
    "0.0.0.0",
    "::",
    "",
    "10.0.0.1",
    "127.0.0.1.example.org",
    "localhost.example.org",
  ];
  for (const host of [...others, "128.0.0.1", "::ffff:10.0.0.1", "2001:db8::1"]) {
    assert.ok(!isLoopback(host), host);
  }
});

test("plain HTTP is in the clear anywhere but on loopback, however the address is written", () => {
  const safe = [
    "https://example.org",
    "HTTPS://example.org:1/x",
    "http://127.0.0.1:8420/v1",
    "ws://[::1]:1",
  ];
  for (const url of [...safe, "http://localhost", "wss://example.org"]) {
    assert.ok(!isInTheClear(url), url);
  }
  const open = [
    "http://example.org",
    "http://localhost@example.org",
    "http://localhost:1@example.org/",
  ];
  for (const url of [
    ...open,
    "http://localhost\\@example.org",
    "HTTP://10.0.0.1",
    "ftp://localhost",
    "",
  ]) {
    assert.ok(isInTheClear(url), url);
  }
});

test("is refused with what to do, and allowed when that was said", () => {
  assert.throws(
    () => refusePlainHttp("http://example.org", false),
    (reason) => {
      assert.ok(reason instanceof Failure);
      assert.match(reason.message, /example\.org.*--insecure-http.*EXCLAVE_INSECURE_HTTP=1/);
      return true;
    },
  );
  assert.throws(() => refusePlainListener("0.0.0.0", false), /proxy that terminates TLS/);

  refusePlainHttp("http://example.org", true);
  refusePlainListener("0.0.0.0", true);
  refusePlainListener("localhost", false);
});
