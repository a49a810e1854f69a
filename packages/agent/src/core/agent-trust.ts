// How an agent follows its vendor's trust document: the next version, or nothing. Every change is on
// record, and so is every document that was refused.

import type { Envelope } from "@exclave/core";
import { act, record, type Turn } from "./turn.ts";

export function handleTrust(turn: Turn, envelope: Envelope): void {
  const { rules, state, now } = turn;
  const judged = rules.nextTrust(state.trust, envelope, now);
  if (judged.kind === "refused") {
    const because = `a trust document was refused: ${judged.because}`;
    act(turn, { kind: "note", level: "warn", text: because });
    record(turn, { type: "alarm", at: now, code: `trust_${judged.code}`, because });
    return;
  }
  const { document, digest } = judged;
  turn.state = { ...state, trust: document };
  // Durable before anything that follows from it is acted on.
  act(turn, { kind: "keep_trust", envelope, document });
  const { version } = document;
  act(turn, { kind: "note", level: "info", text: `trust document ${version} is in force` });
  record(turn, { type: "trust_changed", at: now, version, digest });
}
