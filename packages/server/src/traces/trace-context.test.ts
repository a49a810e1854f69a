import assert from "node:assert/strict";
import { test } from "node:test";
import { Instant } from "@exclave/core";
import { continuedTrace, readTraceparent } from "./trace-context.ts";

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const SPAN = "b7ad6b7169203331";

test("a well-formed traceparent says which span called", () => {
  const expected = { traceId: TRACE, spanId: SPAN };

  assert.deepEqual(readTraceparent(`00-${TRACE}-${SPAN}-01`), expected);
  assert.deepEqual(readTraceparent(`00-${TRACE}-${SPAN}-00`), expected);
  // A later version may say more behind what this one knows.
  assert.deepEqual(readTraceparent(`cc-${TRACE}-${SPAN}-01-what-the-future-holds`), expected);
});

test("whatever is not well-formed counts as no traceparent", () => {
  const wrong = [
    undefined,
    "",
    `00-${TRACE}-${SPAN}`,
    `00-${TRACE.toUpperCase()}-${SPAN}-01`,
    `00-${"0".repeat(32)}-${SPAN}-01`,
    `00-${TRACE}-${"0".repeat(16)}-01`,
    `ff-${TRACE}-${SPAN}-01`,
    `00-${TRACE}-${SPAN}-01-more`,
    `00-${TRACE}-${SPAN}-01.`,
    `cc-${TRACE}-${SPAN}-01-${"x".repeat(1_000)}`,
  ];

  for (const header of wrong) assert.equal(readTraceparent(header), undefined, header);
});

test("what is done long after a request is no part of its trace", () => {
  const trace = { traceId: TRACE, spanId: SPAN, at: Instant.parse(1_000_000) };

  assert.equal(continuedTrace(trace, Instant.parse(1_000_000 + 60 * 60_000)), trace);
  assert.equal(continuedTrace(trace, Instant.parse(1_000_001 + 60 * 60_000)), null);
  assert.equal(continuedTrace(null, Instant.parse(0)), null);
});
