// What an agent event is decided on, and what is to be written in the transaction that commits it.

import type { AgentEvent } from "@exclave/api";
import type { Audience, AuditEntry, Deployed, InstallId, Instant } from "@exclave/core";
import type {
  BuildRow,
  ChannelRow,
  ComponentRow,
  ImageRow,
  InstallRow,
  JobRow,
  ReleaseRow,
} from "../store/rows.ts";

export interface AgentEventFacts {
  readonly event: AgentEvent;
  readonly agent: string;
  readonly audience: Audience;
  readonly now: Instant;
  /** The job the event names, if it is one of this audience. */
  readonly job?: JobRow | undefined;
  readonly install?: InstallRow | undefined;
  /** The component the event is about, if it has a row. */
  readonly component?: ComponentRow | undefined;
  readonly inventory?: InventoryFacts;
}

/** Everything to be written in the transaction that commits the event. */
export interface AgentEventWrites {
  readonly jobs: readonly JobRow[];
  readonly install?: InstallRow;
  /** Installs that a job of the setup agent was about, other than the agent's own. */
  readonly otherInstalls?: readonly InstallRow[];
  readonly components: readonly ComponentRow[];
  readonly removedComponent?: { readonly install: InstallId; readonly name: string };
  readonly build?: BuildRow;
  readonly channel?: ChannelRow;
  readonly images: readonly ImageRow[];
  readonly audit: readonly AuditEntry[];
  readonly wake: {
    readonly install?: InstallId;
    readonly otherInstalls?: readonly InstallId[];
    readonly releases?: boolean;
    readonly allInstalls?: boolean;
  };
}

export interface InventoryFacts {
  /** Jobs of this audience that are with the agent. */
  readonly open: readonly JobRow[];
  /** Of those, the ones whose offer the agent may not have had when it took its inventory. */
  readonly undelivered: ReadonlySet<string>;
  /** What those jobs are about, where the agent is not an install's own. */
  readonly installs?: ReadonlyMap<string, InstallRow>;
  /** Every component of the install. */
  readonly components: readonly ComponentRow[];
  /** Of the releases the agent speaks of and the channel's, those that are known. */
  readonly releases: ReadonlyMap<string, ReleaseRow>;
  /** What the agent applied last of a component, as far as its release is known. */
  readonly traces?: ReadonlyMap<string, Deployed>;
  /** The channel the install follows. */
  readonly channel?: ChannelRow | undefined;
}

export function writes(some: Partial<AgentEventWrites>): AgentEventWrites {
  return { jobs: [], components: [], images: [], audit: [], wake: {}, ...some };
}
