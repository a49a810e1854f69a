// Connections between one agent and its server. Each direction is a queue; either end may notice the
// end of a connection long before the other, so that frames of an old connection can still arrive
// when a new one is up. Within a connection frames may get lost, come twice or change places.

import type { AgentFrame, LogFrame, ServerFrame } from "@exclave/api";
import type { World } from "./world.ts";

export type ToServer = AgentFrame | { readonly type: "log"; readonly log: LogFrame };

export interface Connection {
  readonly id: number;
  isAgentOpen: boolean;
  isServerOpen: boolean;
  readonly toServer: ToServer[];
  readonly toAgent: ServerFrame[];
}

export function createConnection(id: number): Connection {
  return { id, isAgentOpen: true, isServerOpen: true, toServer: [], toAgent: [] };
}

const HANDSHAKE = new Set(["challenge", "hello", "welcome"]);

/** The next frame to arrive, after whatever happened to it on the way. */
export function takeFrame<Frame extends { readonly type: string }>(
  world: World,
  queue: Frame[],
): Frame | undefined {
  const frame = queue.shift();
  if (!frame || HANDSHAKE.has(frame.type) || !world.isTroubled) return frame;
  const { dice } = world;
  if (dice.chance(0.01)) return undefined;
  if (dice.chance(0.02)) queue.unshift(frame);
  const [next] = queue;
  if (next && !HANDSHAKE.has(next.type) && dice.chance(0.01)) {
    queue[0] = frame;
    return next;
  }
  return frame;
}
