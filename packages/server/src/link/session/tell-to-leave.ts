// Tells one agent that its server stops, and when to leave it. One that does not know the frame is simply sent away
// when its time has come.

import { type CallOff, DRAINING, type Timers } from "@exclave/api";
import type { LinkConnection } from "./link-connection.ts";

export interface DrainSlot {
  /** How long it stays. */
  readonly leaveMs: number;
  /** How long it then stays away. */
  readonly stayAwayMs: number;
}

const STOPPING = "the server is stopping";
const NOTHING: CallOff = () => undefined;

export function tellToLeave(
  connection: LinkConnection,
  timers: Timers,
  { leaveMs, stayAwayMs: retryAfterMs }: DrainSlot,
): CallOff {
  const sendAway = () =>
    connection.goAway({ code: DRAINING, because: STOPPING, retryAfterMs, spreadMs: 0 }, 1001);
  if (leaveMs === 0) sendAway();
  else if (!connection.peer?.canDrain) return timers.after(leaveMs, sendAway);
  else connection.send({ type: "drain", afterMs: leaveMs, because: STOPPING });
  return NOTHING;
}
