// The one connection to the server, dialled: over TLS held against the pinned authority, with the agent's own
// certificate, through the proxy of the machine's network where there is one.

import type { Agent } from "node:https";
import { LINK_PROTOCOL, RECEIVED_BYTES_MAX } from "@exclave/api";
import { createDoorAgent, type ServerDoor } from "@exclave/machine";
import { WebSocket } from "ws";

const CONNECT_TIMEOUT_MS = 20_000;

export type Dial = (url: string) => WebSocket;

/** The door as it is when it is dialled: an authority or a certificate that was replaced counts from the next one on. */
export function createDial(door: () => ServerDoor = () => ({})): Dial {
  const agentFor = createDoorAgents();
  return (url) =>
    new WebSocket(url, LINK_PROTOCOL, {
      perMessageDeflate: false,
      maxPayload: RECEIVED_BYTES_MAX,
      handshakeTimeout: CONNECT_TIMEOUT_MS,
      ...(url.startsWith("wss:") && { agent: agentFor(url, door()) }),
    });
}

/** One for as long as the door stays the same: it keeps the tickets that make the next handshake cheap. */
function createDoorAgents(): (url: string, door: ServerDoor) => Agent {
  let held: { readonly name: string; readonly agent: Agent } | undefined;
  return (url, door) => {
    const name = [new URL(url).origin, door.ca, door.own?.cert].join("\n");
    if (held?.name !== name) {
      held?.agent.destroy();
      held = { name, agent: createDoorAgent(url, door) };
    }
    return held.agent;
  };
}
