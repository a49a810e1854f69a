// The signer's protocol: one JSON value a line, a request with a number, an answer with the same
// number. docs/specs/signer-v1.md describes it for those who put a key service behind it.

import type { Readable } from "node:stream";
import { FAILURE_CODES, Failure, KEY_SCHEMES, TrustRole } from "@exclave/core";
import { z } from "zod";

/** A payload of the largest role in base64, and what is around it. */
export const LINE_BYTES_MAX = 2 * 1024 * 1024;

const Keyed = z.object({ role: TrustRole, keyid: z.string().max(128) });

export const SignerRequest = z.discriminatedUnion("do", [
  z.object({ id: z.int(), do: z.literal("keys") }),
  Keyed.extend({
    id: z.int(),
    do: z.literal("sign"),
    payloadType: z.string().max(200),
    payload: z.base64(),
  }),
  z.object({ id: z.int(), do: z.literal("make"), role: TrustRole }),
  Keyed.extend({ id: z.int(), do: z.literal("forget") }),
  Keyed.extend({ id: z.int(), do: z.literal("export") }),
]);
export type SignerRequest = z.infer<typeof SignerRequest>;

const WireKey = z.object({
  role: TrustRole,
  keyid: z.string().max(128),
  spki: z.base64().max(1024),
  scheme: z.enum(KEY_SCHEMES),
});

export const SignerAnswer = z.object({
  id: z.int(),
  keys: z.array(WireKey).max(1_000).optional(),
  key: WireKey.optional(),
  signature: z.base64().max(1024).optional(),
  pem: z.string().max(10_000).optional(),
  error: z.object({ code: z.enum(FAILURE_CODES), message: z.string().max(2_000) }).optional(),
});
export type SignerAnswer = z.infer<typeof SignerAnswer>;

/** The lines of a stream. One that is over the limit ends it: nothing after it could be told apart. */
export async function* readLines(stream: Readable): AsyncGenerator<string> {
  let parts: Buffer[] = [];
  let size = 0;
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    let from = 0;
    for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, from)) {
      parts.push(chunk.subarray(from, end));
      checkSize(size + end - from);
      yield Buffer.concat(parts).toString("utf8");
      parts = [];
      size = 0;
      from = end + 1;
    }
    size += chunk.length - from;
    checkSize(size);
    if (from < chunk.length) parts.push(chunk.subarray(from));
  }
}

function checkSize(bytes: number): void {
  if (bytes <= LINE_BYTES_MAX) return;
  throw new Failure("too_large", `a line is over ${LINE_BYTES_MAX} bytes`);
}
