// The agent's durable memory. Whatever the agent says it has done or will do is in here first: a
// commit is all or nothing, and on disk when it returns. One reader and writer, so no waiting.

import { AgentEvent, AppliedComponent } from "@exclave/api";
import { Envelope, FAILURE_CODES, Health, JobName, Manifest, OutputLine } from "@exclave/core";
import { z } from "zod";
import type { ReleaseMemory, ReleaseWrite } from "./release-memory.ts";

/** One accepted attempt, from its acceptance until the server has its end and its whole log. */
export const JobRecord = z.object({
  name: JobName,
  manifest: Manifest,
  /** launching: the intent is on disk, the launch may or may not have happened. */
  status: z.enum(["accepted", "launching", "running", "ended"]),
  launches: z.int().nonnegative(),
  /** Set when somebody asked for its end. */
  cancelGraceMs: z.int().nonnegative().optional(),
  /** When the cancel that counts was signed: the same one again is a replay. */
  cancelIssuedAt: z.int().nonnegative().optional(),
  /** The event that told its end; 0 where it was acknowledged before the sequences began anew. */
  endedSeq: z.int().nonnegative().optional(),
  logBytes: z.int().nonnegative().optional(),
  /** It was told to a server that was set back, which may not know it. */
  isInventoried: z.boolean().optional(),
});
export type JobRecord = z.infer<typeof JobRecord>;

/** A job's record where the sequences begin anew: its end keeps its place, and its log is sent on. */
export function renumberedEnd(record: JobRecord, upAcked: number): JobRecord {
  if (record.endedSeq === undefined) return record;
  return { ...record, endedSeq: Math.max(0, record.endedSeq - upAcked) };
}

export const SeenHealth = z.object({
  health: Health,
  because: z.string(),
  drift: z.object({ found: z.boolean(), summary: z.string() }).optional(),
  /** Why it could not be looked up. */
  code: z.enum(FAILURE_CODES).optional(),
});
export type SeenHealth = z.infer<typeof SeenHealth>;

/** A deployed component whose status the agent looks up by itself, from the manifest it applied. */
export const ScheduleEntry = z.object({
  component: z.string(),
  everyMs: z.int().positive(),
  manifest: Manifest,
  last: SeenHealth.optional(),
});
export type ScheduleEntry = z.infer<typeof ScheduleEntry>;

export const KeptOutput = OutputLine.omit({ type: true });
export type KeptOutput = z.infer<typeof KeptOutput>;

/** A checkpoint of the server's record that this agent saw, as it was signed. */
export const KeptCheckpoint = z.object({
  serverId: z.string(),
  size: z.int().nonnegative(),
  head: z.string(),
  at: z.int(),
  envelope: Envelope,
  /** The server declared later that its record was set back before this. */
  isLost: z.boolean().optional(),
});
export type KeptCheckpoint = z.infer<typeof KeptCheckpoint>;

export const JournaledEvent = z.object({ seq: z.int().positive(), body: AgentEvent });
export type JournaledEvent = z.infer<typeof JournaledEvent>;

export const SETTLED_KEPT_MAX = 10_000;

/** What became of each component, for a server that was set back and has forgotten. */
export const Applied = z.object({
  /** Applied last, or launched at least. */
  there: z.array(AppliedComponent).default([]),
  /** Destroyed since. */
  gone: z.array(z.string()).default([]),
});
export type Applied = z.infer<typeof Applied>;
export const NOTHING_APPLIED: Applied = { there: [], gone: [] };

export interface JournalSnapshot {
  /** A new one means that everything before is lost or void. */
  readonly journalId: string;
  /** Nothing was ever written to it. */
  readonly fresh: boolean;
  readonly downAcked: number;
  readonly upHead: number;
  readonly upAcked: number;
  readonly issueNo: number;
  /** Manifests issued before this instant are refused: what was accepted before is not known any more. */
  readonly issuedFloor: number;
  /** Not yet acknowledged, in order. */
  readonly events: readonly JournaledEvent[];
  readonly jobs: readonly JobRecord[];
  /**
   * Attempts that were accepted and are over, oldest first: names alone, the newest `SETTLED_KEPT_MAX`. None runs a
   * second time: a manifest from before these is refused by its issue number, which only rises.
   */
  readonly settled: readonly JobName[];
  readonly schedule: readonly ScheduleEntry[];
  readonly applied: Applied;
  /** Oldest first. */
  readonly checkpoints: readonly KeptCheckpoint[];
  /** Jobs found in the runtime when the journal was new: reported, and otherwise left alone. */
  readonly foreign: readonly JobName[];
}

export type JournalWrite =
  | { readonly kind: "down_acked"; readonly seq: number }
  | { readonly kind: "event"; readonly seq: number; readonly body: AgentEvent }
  | { readonly kind: "events_acked"; readonly upTo: number }
  | { readonly kind: "issue"; readonly issueNo: number }
  | { readonly kind: "issued_floor"; readonly at: number }
  | { readonly kind: "job"; readonly record: JobRecord }
  | { readonly kind: "job_removed"; readonly name: JobName }
  | { readonly kind: "checkpoints"; readonly list: readonly KeptCheckpoint[] }
  | { readonly kind: "foreign"; readonly names: readonly JobName[] }
  | { readonly kind: "schedule"; readonly entry: ScheduleEntry }
  | { readonly kind: "schedule_removed"; readonly component: string }
  | { readonly kind: "applied"; readonly applied: Applied }
  | {
      readonly kind: "outputs";
      readonly component: string;
      readonly outputs: readonly KeptOutput[];
    }
  | { readonly kind: "outputs_removed"; readonly component: string }
  /** Values that must not appear in what this job says; its log is redacted by them, always alike. */
  | { readonly kind: "job_secrets"; readonly name: JobName; readonly secrets: readonly string[] }
  | { readonly kind: "secret"; readonly name: string; readonly value: string }
  /** Both sequences start anew, under a new id; events not yet acknowledged are numbered from 1. */
  | { readonly kind: "restart"; readonly journalId: string }
  | ReleaseWrite;

export interface Journal extends ReleaseMemory {
  /** All that the agent needs to go on where it stopped. */
  load(): JournalSnapshot;

  /** Durable when it returns; when it throws, nothing of it happened. */
  commit(writes: readonly JournalWrite[]): void;

  /** Outputs of every deployed component, sensitive ones too. */
  outputs(): ReadonlyMap<string, readonly KeptOutput[]>;

  /** A secret made in this install. */
  secret(name: string): string | undefined;

  jobSecrets(name: JobName): readonly string[];

  close(): void;
}
