// One malicious agent and one viewer's token flood a server: its memory stays below a bound, and nobody else
// notices more than time. How much time is a figure of the bench (`npm run bench -- flood`), not of this test.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { runFlood } from "@exclave/server/testing/flood";

/** The server, its signer, the process for checks with its limit, and what the two may make them hold. */
const RESIDENT_BYTES_MAX = 768 * 1024 * 1024;

test("a flood by one agent and one viewer leaves others served and memory bounded", async (t) => {
  const directory = mkdtempSync(join(tmpdir(), "exclave-flood-"));
  t.after(() => rmSync(directory, { recursive: true, force: true }));

  const { flooded, failures, residentBytesMax, sent } = await runFlood(directory, {
    phaseMs: 8_000,
    isIdle: false,
  });

  assert.deepEqual(failures, []);
  assert.ok(flooded.length > 10, `${flooded.length} calls and events of others`);
  assert.ok(sent.frames > 500 && sent.calls > 5, JSON.stringify(sent));
  assert.ok(residentBytesMax > 0 && residentBytesMax < RESIDENT_BYTES_MAX, `${residentBytesMax}`);
});
