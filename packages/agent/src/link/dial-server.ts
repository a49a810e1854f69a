// The one connection to the server, dialled: over TLS held against the pinned authority, through the
// proxy of the machine's network where there is one.

import { LINK_PROTOCOL, RECEIVED_BYTES_MAX } from "@exclave/api";
import { createDoorAgent, type ServerDoor } from "@exclave/machine";
import { WebSocket } from "ws";

const CONNECT_TIMEOUT_MS = 20_000;

export type Dial = (url: string) => WebSocket;

export function createDial(door: ServerDoor = {}): Dial {
  return (url) =>
    new WebSocket(url, LINK_PROTOCOL, {
      perMessageDeflate: false,
      maxPayload: RECEIVED_BYTES_MAX,
      handshakeTimeout: CONNECT_TIMEOUT_MS,
      ...(url.startsWith("wss:") && { agent: createDoorAgent(url, door) }),
    });
}
