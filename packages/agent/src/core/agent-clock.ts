// This machine's clock against the time the server was seen to have. Offers are judged by the later of
// the two, so a clock that was set back makes nothing valid again; that it was is said, once.

import { CLOCK_SKEW_MS } from "./agent-limits.ts";
import { serverTimeSeen } from "./agent-record.ts";
import { act, raise, type Turn } from "./turn.ts";

export function noteClock(turn: Turn): void {
  const { state, now } = turn;
  const seen = serverTimeSeen(state);
  const isClockBehind = seen - now > CLOCK_SKEW_MS;
  if (isClockBehind === state.isClockBehind) return;
  turn.state = { ...state, isClockBehind };
  if (isClockBehind) return raise(turn, "clock_set_back", behind(now, seen));
  act(turn, { kind: "note", level: "info", text: "this machine's clock has caught up" });
}

function behind(now: number, seen: number): string {
  const [here, there] = [now, seen].map((at) => new Date(at).toISOString());
  return `this machine's clock says ${here}, and a checkpoint signed by the server said ${there} before: it was set back, or the server's was ahead; what expires is judged by the later time`;
}
