import assert from "node:assert/strict";
import { test } from "node:test";
import { ACME as INSTALL } from "../testing/rows.ts";
import { type Notice, PAYLOAD_BYTES_MAX, packNotices, unpackNotices } from "./notice.ts";

const said = { kind: "job", subject: "j", install: null, component: null } as const;

test("notices come out as they went in, in payloads that fit", () => {
  const notices = Array.from(
    { length: 500 },
    (_, n): Notice => ({ kind: "event", event: { ...said, message: `ü${n}` } }),
  );

  const payloads = packNotices("a", notices);

  assert.ok(payloads.length > 1);
  assert.ok(payloads.every((payload) => Buffer.byteLength(payload) <= PAYLOAD_BYTES_MAX));
  assert.deepEqual(
    payloads.flatMap((payload) => unpackNotices(payload)?.notices ?? []),
    notices,
  );
});

test("a long message is cut, and one that cannot fit at all is left out", () => {
  const long: Notice = { kind: "event", event: { ...said, message: "x".repeat(100_000) } };
  const huge: Notice = {
    kind: "event",
    event: { ...said, subject: "x".repeat(100_000), message: "" },
  };

  const payloads = packNotices("a", [long, huge, { kind: "releases" }]);

  const kinds = payloads.flatMap((one) => unpackNotices(one)?.notices.map(({ kind }) => kind));
  assert.deepEqual(kinds, ["event", "releases"]);
});

test("what a newer server says and this one does not know is passed over", () => {
  const payload = JSON.stringify({
    from: "b",
    notices: [{ kind: "of tomorrow" }, { kind: "install", install: INSTALL, more: 1 }],
  });

  assert.deepEqual(unpackNotices(payload)?.notices, [{ kind: "install", install: INSTALL }]);
  assert.equal(unpackNotices("no JSON"), undefined);
  assert.equal(unpackNotices('"text"'), undefined);
});
