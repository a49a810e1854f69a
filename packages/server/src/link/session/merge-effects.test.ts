import assert from "node:assert/strict";
import { test } from "node:test";
import type { AgentEvent } from "@exclave/api";
import type { LinkEffect } from "../link-state.ts";
import { mergeEffects } from "./merge-effects.ts";

const ALARM: AgentEvent = { type: "alarm", at: 1, code: "x", because: "x" };
const GRANT: LinkEffect = {
  kind: "grant",
  wanted: { type: "grant_want", job: "j", attempt: 1 } as never,
};

test("events that came together are one commit and one acknowledgement", () => {
  const merged = mergeEffects([...event(1), ...event(2), ...event(3)]);

  assert.deepEqual(merged.map(shown), ["commit 1,2,3", "ack 3"]);
});

test("nothing is acknowledged before it is committed, wherever the frames are cut", () => {
  const effects = [acked(7), ...event(1), GRANT, ...event(2), ...event(3), GRANT];

  const merged = mergeEffects(effects).map(shown);

  assert.deepEqual(merged, ["commit acked 7,1", "ack 1", "grant", "commit 2,3", "ack 3", "grant"]);
});

test("writes under different sessions are not one commit", () => {
  const [first, ack] = event(1);
  const later = { ...acked(2), epoch: 2 } as LinkEffect;

  assert.deepEqual(mergeEffects([first, ack, later]).map(shown), [
    "commit 1",
    "ack 1",
    "commit acked 2",
  ]);
});

test("logs of several jobs are written side by side, and acknowledged after; two pieces of one are not", () => {
  const log = (job: string, upTo: number): LinkEffect[] => [
    { kind: "append_log", job, attempt: 1, offset: 0, bytes: new Uint8Array(1) },
    { kind: "send", frame: { type: "log_ack", job: job as never, attempt: 1, upTo } },
  ];

  const merged = mergeEffects([...log("a", 1), ...log("b", 2), ...log("a", 3)]);

  assert.deepEqual(
    merged.map((effect) =>
      effect.kind === "append_logs"
        ? `append ${effect.pieces.map(({ job }) => job).join(",")}`
        : effect.kind === "send" && effect.frame.type === "log_ack" && `ack ${effect.frame.upTo}`,
    ),
    ["append a,b", "ack 1", "ack 2", "append a", "ack 3"],
  );
});

test("commands go out in their order, and none is left out", () => {
  const command = (seq: number): LinkEffect => ({
    kind: "send",
    frame: { type: "command", seq, body: { type: "job_cancel", job: "j", attempt: 1 } as never },
  });

  const merged = mergeEffects([command(1), ...event(1), command(2), ...event(2)]);

  assert.deepEqual(merged.map(shown), ["commit 1,2", "command 1", "command 2", "ack 2"]);
});

function event(seq: number): [LinkEffect, LinkEffect] {
  return [
    { kind: "commit", epoch: 1, write: { kind: "event", seq, event: ALARM } },
    { kind: "send", frame: { type: "ack", seq } },
  ];
}

function acked(seq: number): LinkEffect {
  return { kind: "commit", epoch: 1, write: { kind: "acked", seq } };
}

function shown(effect: ReturnType<typeof mergeEffects>[number]): string {
  if (effect.kind === "send")
    return `${effect.frame.type} ${(effect.frame as { seq: number }).seq}`;
  if (effect.kind !== "commit") return effect.kind;
  const writes = effect.writes.map((write) =>
    write.kind === "event" ? `${write.seq}` : `${write.kind} ${(write as { seq: number }).seq}`,
  );
  return `commit ${writes.join()}`;
}
