import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { AgentFrame, helloBytes, ServerFrame } from "./link.ts";
import { decodeLogFrame, encodeLogFrame } from "./log-frame.ts";
import { SAMPLES } from "./samples.ts";

const anyLogFrame = fc.record({
  job: fc.stringMatching(/^j[a-z2-7]{16}$/),
  attempt: fc.integer({ min: 1, max: 9 }),
  offset: fc.nat(),
  bytes: fc.uint8Array({ maxLength: 2_000 }),
});

describe("log frames", () => {
  test("come back as they went", () => {
    fc.assert(
      fc.property(anyLogFrame, (frame) => {
        const back = decodeLogFrame(encodeLogFrame(frame));
        assert.deepEqual(back && { ...back, bytes: [...back.bytes] }, {
          ...frame,
          bytes: [...frame.bytes],
        });
      }),
    );
  });

  test("that are not ours, cut short or lying about their length are refused, never thrown on", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 }), (bytes) => {
        const decoded = decodeLogFrame(bytes);
        assert.ok(decoded === undefined || decoded.offset >= 0);
      }),
    );
    const whole = encodeLogFrame({
      job: "jaaaaaaaaaaaaaaaa",
      attempt: 1,
      offset: 0,
      bytes: new Uint8Array(),
    });
    assert.equal(decodeLogFrame(whole.subarray(0, whole.length - 1)), undefined);
  });
});

describe("messages of version 1", () => {
  for (const [name, { side, frame }] of Object.entries(SAMPLES)) {
    const schema = side === "agent" ? AgentFrame : ServerFrame;

    test(`${name} still parses`, () => {
      assert.deepEqual(schema.safeParse(frame).error, undefined);
    });

    test(`${name} with a field of a later version still parses`, () => {
      assert.ok(schema.safeParse({ ...frame, fromTheFuture: true }).success);
    });
  }

  test("an unknown type of message is refused", () => {
    assert.ok(!AgentFrame.safeParse({ type: "surprise" }).success);
  });
});

test("a hello's proof is bound to the connection, the agent and its boot", () => {
  const text = (...parts: [string, string, string]) =>
    new TextDecoder().decode(helloBytes(...parts));

  assert.notEqual(text("n1", "a", "b"), text("n2", "a", "b"));
  assert.notEqual(text("n", "a1", "b"), text("n", "a2", "b"));
  assert.notEqual(text("n", "a", "b1"), text("n", "a", "b2"));
});
