// The values of the link machine: what it knows, what happens to it, and what it wants done.

import type { AgentEvent, AgentFrame, LogFrame, ServerCommand, ServerFrame } from "@exclave/api";
import type { Envelope } from "@exclave/core";
import type { OutboxCommand } from "../store/rows.ts";
import type { CertificateJudgement } from "../tls/certificate-rules.ts";

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
  /** An inventory was asked for, and has not come yet. */
  readonly isInventoryWanted: boolean;
}

/** As it waits in the outbox, or signed already. */
export type Command = OutboxCommand | ServerCommand;

/** Whether it is still to be signed. */
export function isWaiting(command: Command): command is OutboxCommand {
  if ("envelope" in command) return false;
  return command.type === "job_offer" || command.graceMs !== undefined;
}

/** A command is signed by the shell, on its way out. */
export type OutgoingFrame =
  | Exclude<ServerFrame, { type: "command" }>
  | { readonly type: "command"; readonly seq: number; readonly body: Command };

export interface SequencedCommand {
  readonly row: number;
  readonly seq: number;
  readonly body: Command;
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
  /** When commands were last sent again, and from where they are wanted once more since. */
  readonly resend: { readonly at: number; readonly wantedFrom?: number };
  readonly settings: LinkSettings;
  /** The agent's client certificate; absent where it has none, or needs none. */
  readonly certificate?: LinkCertificate;
}

export interface LinkCertificate {
  readonly until: number;
  /** When the next one is offered. */
  readonly offerAt: number;
  /** When that one ends; until the agent says that it keeps it. */
  readonly offered?: number;
}

type Pong = Extract<AgentFrame, { type: "pong" }>;
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
  /**
   * `durable` is how much of that log is on disk, absent when this agent does not write it; `most` how long it may
   * become, absent while its job runs.
   */
  | {
      readonly kind: "log";
      readonly frame: LogFrame;
      readonly durable?: number;
      readonly most?: number;
      /** Of a job that is not on record here: the agent need not keep it. */
      readonly isUnwanted?: boolean;
      readonly now: number;
    }
  /** Commands in the outbox that have no sequence yet, oldest first. */
  | {
      readonly kind: "waiting";
      readonly rows: readonly { readonly row: number; readonly body: Command }[];
    }
  | { readonly kind: "tick"; readonly now: number };

/** What the shell looked up for a hello. */
export interface HelloFacts {
  /** Absent when no such agent joined. */
  readonly record?: LinkRecord;
  /** It connects too often: how long it is to stay away. */
  readonly retryAfterMs?: number;
  /** Whether the proof is by that agent's key over this connection's nonce. */
  readonly isProven: boolean;
  /** Whether the connection's certificate lets it in; absent where none is asked for. */
  readonly certificate?: CertificateJudgement;
  /** What this server can do beyond what every one can. */
  readonly capabilities?: readonly string[];
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
      /** Offers that never reached the agent and were cancelled meanwhile: cancels take their numbers. */
      readonly withdrawn?: readonly SequencedCommand[];
      readonly reset?: string;
      /** Until an inventory has come: the welcome that asks for one may get lost. */
      readonly isInventoryWanted: boolean;
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

export type JoinWanted = Extract<AgentFrame, { type: "join_want" }>;
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
  | { readonly kind: "send"; readonly frame: OutgoingFrame }
  /** Make and send a grant, if that job is this agent's. */
  | { readonly kind: "grant"; readonly wanted: GrantWanted }
  /** Make and send a join string, if that job is a setup of this agent that has had none. */
  | { readonly kind: "join"; readonly wanted: JoinWanted }
  /** Keep what the agent presents of the record it was shown. */
  | { readonly kind: "checkpoints"; readonly list: readonly Envelope[] }
  /** Issue a client certificate that ends then, and send it; with `because`, that goes on record. */
  | { readonly kind: "certify"; readonly until: number; readonly because?: string }
  /** The agent holds the server against these authorities. */
  | { readonly kind: "authorities"; readonly fingerprints: readonly string[] }
  /** When the agent last looked at each component. */
  | { readonly kind: "looks"; readonly looks: NonNullable<Pong["looks"]> }
  /** Room for commands: look into the outbox and come back with `waiting`. */
  | { readonly kind: "look"; readonly limit: number }
  | { readonly kind: "close"; readonly because: string };
