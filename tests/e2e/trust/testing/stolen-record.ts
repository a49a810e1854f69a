// What whoever takes a server has of its record, as its agent saw it: enough to be listened to.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { ServerFrame } from "@exclave/api";
import type { Envelope } from "@exclave/core";

const AGENT = fileURLToPath(new URL("../../../../packages/agent/src/main.ts", import.meta.url));

/** The checkpoint that the agent with this home saw last, and the heads it knows. */
export function seenRecord(home: string): Extract<ServerFrame, { type: "checkpoint" }> {
  const args = [AGENT, "checkpoints", "--home", home];
  const text = execFileSync(process.execPath, args, { encoding: "utf8" });
  const { checkpoints } = JSON.parse(text) as {
    checkpoints: { size: number; head: string; envelope: Envelope }[];
  };
  const last = checkpoints.at(-1);
  assert.ok(last, "the agent has seen a checkpoint");
  const heads = checkpoints.map(({ size, head }) => ({ size, head }));
  return { type: "checkpoint", envelope: last.envelope, heads };
}
