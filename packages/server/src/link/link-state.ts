// The values of the link machine: what it knows, what happens to it, and what it wants done.

import type { AgentEvent, AgentFrame, LogFrame, ServerCommand, ServerFrame } from "@exclave/api";

/** How many commands may be on their way without an acknowledgement. */
export const COMMAND_WINDOW = 32;

/** What the store knows of an agent's link. */
export interface LinkRecord {
  readonly agent: string;
  readonly isRevoked: boolean;
  readonly keyGeneration: number;
  readonly journalId: string | null;
  readonly sessionEpoch: number;
  readonly upAcked: number;
  readonly downHead: number;
  readonly downAcked: number;
}

export interface SequencedCommand {
  readonly row: number;
  readonly seq: number;
  readonly body: ServerCommand;
}

export interface LinkSettings {
  readonly pingMs: number;
  readonly reconnectSpreadMs: number;
  readonly logCreditBytes: number;
  readonly frameBytes: number;
}

export type LinkState =
  | { readonly phase: "challenged"; readonly nonce: string }
  | LiveLink
  | { readonly phase: "closed" };

export interface LiveLink {
  readonly phase: "live";
  readonly agent: string;
  readonly epoch: number;
  readonly upAcked: number;
  readonly downHead: number;
  /** Given a sequence and not yet acknowledged, lowest first. */
  readonly unacked: readonly SequencedCommand[];
  /** Nothing came from the agent since: the id of the ping it has not answered, and since when. */
  readonly ping: { readonly id: number; readonly heardAt: number; readonly sentAt: number };
  readonly settings: LinkSettings;
}

export type Hello = Extract<AgentFrame, { type: "hello" }>;

export type LinkInput =
  | { readonly kind: "opened"; readonly nonce: string }
  | {
      readonly kind: "hello";
      readonly frame: Hello;
      readonly facts: HelloFacts;
      readonly now: number;
    }
  | { readonly kind: "frame"; readonly frame: Exclude<AgentFrame, Hello>; readonly now: number }
  /** `durable` is how much of that log is on disk; absent when it is no job of this agent. */
  | {
      readonly kind: "log";
      readonly frame: LogFrame;
      readonly durable?: number;
      readonly now: number;
    }
  /** Commands in the outbox that have no sequence yet, oldest first. */
  | {
      readonly kind: "waiting";
      readonly rows: readonly { readonly row: number; readonly body: ServerCommand }[];
    }
  | { readonly kind: "tick"; readonly now: number };

/** What the shell looked up for a hello. */
export interface HelloFacts {
  /** Absent when no such agent joined. */
  readonly record?: LinkRecord;
  /** Whether the proof is by that agent's key over this connection's nonce. */
  readonly isProven: boolean;
  /** Commands that have a sequence and were never acknowledged, lowest first. */
  readonly unacked: readonly SequencedCommand[];
  readonly logs: readonly {
    readonly job: string;
    readonly attempt: number;
    readonly upTo: number;
  }[];
  readonly checkpoint?: { readonly size: number; readonly head: string };
  readonly settings: LinkSettings;
}

export type LinkWrite =
  /** The agent's link from now on. With `reset`, commands on their way get new sequences. */
  | {
      readonly kind: "session";
      readonly journalId: string;
      readonly upAcked: number;
      readonly downHead: number;
      readonly downAcked: number;
      readonly renumbered: readonly SequencedCommand[];
      readonly reset?: string;
      readonly hello: Hello;
    }
  /** The event itself, what follows from it, and `upAcked = seq`, in one transaction. */
  | { readonly kind: "event"; readonly seq: number; readonly event: AgentEvent }
  /** These commands are about to be sent for the first time. */
  | {
      readonly kind: "offer";
      readonly downHead: number;
      readonly commands: readonly SequencedCommand[];
    }
  /** Commands up to here are in the agent's journal. */
  | { readonly kind: "acked"; readonly seq: number };

export type GrantWanted = Extract<AgentFrame, { type: "grant_want" }>;

export type LinkEffect =
  | { readonly kind: "commit"; readonly epoch: number; readonly write: LinkWrite }
  | {
      readonly kind: "append_log";
      readonly job: string;
      readonly attempt: number;
      readonly offset: number;
      readonly bytes: Uint8Array;
    }
  | { readonly kind: "send"; readonly frame: ServerFrame }
  /** Make and send a grant, if that job is this agent's. */
  | { readonly kind: "grant"; readonly wanted: GrantWanted }
  /** Room for commands: look into the outbox and come back with `waiting`. */
  | { readonly kind: "look"; readonly limit: number }
  | { readonly kind: "close"; readonly because: string };
