import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type Envelope, parseTrust } from "@exclave/core";
import type { World } from "../../testing/harness.ts";

/** Of the trust document that acme's agent goes by. */
export function trustVersion(world: World): number {
  const text = readFileSync(join(world.home, "installs/acme/agent/trust.json"), "utf8");
  const { envelope } = JSON.parse(text) as { envelope: Envelope };
  const document = parseTrust(Buffer.from(envelope.payload, "base64"));
  assert.ok(!("because" in document));
  return document.version;
}
