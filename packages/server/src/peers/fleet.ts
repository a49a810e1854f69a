// Which server holds which agent's link, and which of them does what any of them could. An install is planned where
// its agent's link is, and without a link by one that all of them choose alike. Two that plan at once, because one has
// yet to hear of a change, do no harm: the install's revision refuses the second.

import { type Audience, Instant } from "@exclave/core";
import type { AgentWatch } from "../context.ts";
import type { Store } from "../store/store.ts";
import type { Peers } from "./peers.ts";
import { chooseServer } from "./rendezvous.ts";

export interface Fleet {
  /** Whether another server that is there holds that link. */
  isElsewhere(audience: Audience): boolean;
  /** What can be said here of an agent that is connected elsewhere. */
  watchElsewhere(audience: Audience): AgentWatch | undefined;
  /** Whether this server plans that install. */
  plans(install: string): boolean;
  /** Whether this server does what one of all does. */
  does(what: string): boolean;
  note(link: LinkNews): void;
  /** Reads from the rows who holds which link. */
  reload(): Promise<void>;
}

export interface LinkNews {
  readonly audience: Audience;
  readonly server: string;
  readonly epoch: number;
  readonly isUp: boolean;
}

interface HeldLink {
  readonly server: string;
  readonly epoch: number;
  readonly since: Instant;
}

const PAGE = 500;

export function createFleet(options: {
  readonly peers: Pick<Peers, "self" | "servers">;
  readonly store: Pick<Store, "read">;
  readonly isHere: (audience: Audience) => boolean;
  readonly now: () => Instant;
}): Fleet {
  const { peers, store, isHere, now } = options;
  const links = new Map<string, HeldLink>();

  return { isElsewhere, watchElsewhere, plans, does, note, reload };

  function elsewhere(audience: string): HeldLink | undefined {
    const link = links.get(audience);
    const isOther = link && link.server !== peers.self() && peers.servers().includes(link.server);
    return isOther ? link : undefined;
  }

  function isElsewhere(audience: Audience): boolean {
    return elsewhere(audience) !== undefined;
  }

  /** How fresh each look is, only the server knows that holds the link; it is the one that acts on a stale one. */
  function watchElsewhere(audience: Audience): AgentWatch | undefined {
    const link = elsewhere(audience);
    return link && { since: link.since, looks: { get: () => now() } };
  }

  function plans(install: string): boolean {
    if (peers.servers().length < 2 || isHere(install as Audience)) return true;
    return elsewhere(install) === undefined && does(`install ${install}`);
  }

  function does(what: string): boolean {
    const servers = peers.servers();
    return servers.length < 2 || chooseServer(servers, what) === peers.self();
  }

  function note({ audience, server, epoch, isUp }: LinkNews): void {
    const known = links.get(audience);
    if (known && known.epoch > epoch) return;
    if (isUp) links.set(audience, { server, epoch, since: now() });
    else if (known?.server === server) links.delete(audience);
  }

  async function reload(): Promise<void> {
    let cursor: string | undefined;
    do {
      const { items, next } = await store.read.agents.list({ limit: PAGE, cursor });
      for (const { audience, heldBy, sessionEpoch: epoch, seenAt } of items) {
        const known = links.get(audience);
        // What was told since the row was read counts.
        if (known && known.epoch > epoch) continue;
        if (heldBy === null) links.delete(audience);
        else links.set(audience, { server: heldBy, epoch, since: Instant.parse(seenAt) });
      }
      cursor = next ?? undefined;
    } while (cursor !== undefined);
  }
}
