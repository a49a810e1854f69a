import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { hostsOf, type ListenerWish, planListener } from "./listener-tls.ts";

const files = { certificateFile: "a.crt", keyFile: "a.pem" };

const PLANS: readonly [string, ListenerWish, string][] = [
  ["loopback is plain", { host: "127.0.0.1" }, "plain"],
  ["any other address has TLS by its own authority", { host: "0.0.0.0" }, "own"],
  ["a name is no loopback address", { host: "exclave.example" }, "own"],
  ["TLS can be had on loopback", { host: "127.0.0.1", tls: { isForced: true } }, "own"],
  ["a certificate that was brought", { host: "0.0.0.0", tls: files }, "files"],
  [
    "behind a balancer that is reached by https",
    {
      host: "0.0.0.0",
      publicUrl: "https://e.org",
      tls: { isBehindBalancer: true },
    },
    "plain",
  ],
  ["plain HTTP in so many words", { host: "0.0.0.0", insecureHttp: true }, "plain"],
  ["which says nothing against TLS", { host: "0.0.0.0", insecureHttp: true, tls: files }, "files"],
];

describe("a listener", () => {
  for (const [what, wish, kind] of PLANS) {
    test(what, () => assert.equal(planListener(wish).kind, kind));
  }

  test("whose settings contradict each other is not begun, and the sentence says why", () => {
    const host = "0.0.0.0";
    const refused: readonly [ListenerWish, RegExp][] = [
      [{ host, tls: { certificateFile: "a" } }, /belong together/],
      [{ host, tls: { caFile: "a" } }, /belong together/],
      [{ host, tls: { isBehindBalancer: true } }, /needs --public-url https/],
      [
        { host, publicUrl: "http://e.org", tls: { isBehindBalancer: true } },
        /needs --public-url https/,
      ],
      [
        { host, publicUrl: "https://e.org", tls: { isBehindBalancer: true, isForced: true } },
        /no TLS of its own/,
      ],
      [
        { host, publicUrl: "https://e.org", tls: { isBehindBalancer: true, ...files } },
        /no TLS of its own/,
      ],
      [{ host, publicUrl: "http://127.0.0.1:1" }, /--public-url .* is plain HTTP/],
    ];
    for (const [wish, pattern] of refused) assert.throws(() => planListener(wish), pattern);
  });

  test("is called by what it listens on and what it is called, and by loopback", () => {
    const loopback = ["localhost", "127.0.0.1", "::1"];

    assert.deepEqual(hostsOf("0.0.0.0", "https://e.org:8443"), ["e.org", ...loopback]);
    assert.deepEqual(hostsOf("192.0.2.1", undefined), ["192.0.2.1", ...loopback]);
    assert.deepEqual(hostsOf("::", "https://[2001:db8::1]"), ["2001:db8::1", ...loopback]);
  });
});
