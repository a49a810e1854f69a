// Servers of one process: the one that has its database to itself, and several of a test.

import { randomUUID } from "node:crypto";
import { packNotices, unpackNotices } from "./notice.ts";
import { createAlone, type PeerListener, type Peers } from "./peers.ts";

interface Member {
  readonly name: string;
  readonly listeners: readonly PeerListener[];
}

/** Where servers of one process meet. */
export interface PeerHub {
  readonly members: Set<Member>;
  readonly alone: ReturnType<typeof createAlone>;
}

export function createPeerHub(): PeerHub {
  return { members: new Set(), alone: createAlone() };
}

export function createMemoryPeers(hub: PeerHub = createPeerHub()): Peers {
  const name = randomUUID();
  const listeners: PeerListener[] = [];
  const member: Member = { name, listeners };
  const changed = () => {
    for (const other of hub.members) {
      if (other !== member) for (const { onUnsure } of other.listeners) onUnsure();
    }
  };
  hub.members.add(member);
  changed();

  return {
    self: () => name,
    servers: () => [...hub.members].map((one) => one.name).toSorted(),
    tell(notice) {
      if (hub.members.size < 2) return;
      // As it would come from another process.
      for (const payload of packNotices(name, [notice])) queueMicrotask(() => hand(payload));
    },
    listen: (listener) => void listeners.push(listener),
    alone: (what, work) => hub.alone.run(what, work),
    async unlessBusy(what, work) {
      if (!hub.alone.isBusy(what)) await hub.alone.run(what, work);
    },
    async close() {
      if (hub.members.delete(member)) changed();
    },
  };

  function hand(payload: string): void {
    const told = unpackNotices(payload);
    for (const other of hub.members) {
      if (other === member) continue;
      for (const { onNotice } of other.listeners) {
        for (const notice of told?.notices ?? []) onNotice(notice, name);
      }
    }
  }
}
