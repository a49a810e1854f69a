// What the agent core knows, what can happen to it, and what it may want done. All of it plain data:
// the program and the simulation run the same core over the same values.

import type {
  AgentEvent,
  AgentFrame,
  AgentKind,
  Grant,
  ServerCommand,
  ServerFrame,
  UnreadableCommand,
} from "@exclave/api";
import type {
  ArtifactLine,
  CancelJudgement,
  Checkpoint,
  Envelope,
  FailureCode,
  JobName,
  JobReport,
  Judgement,
  ResultLine,
  TrustDocument,
  TrustJudgement,
} from "@exclave/core";
import type { JobRun } from "@exclave/runtime";
import type {
  Applied,
  JobRecord,
  JournaledEvent,
  JournalSnapshot,
  JournalWrite,
  KeptCheckpoint,
  KeptOutput,
  ScheduleEntry,
  SeenHealth,
} from "../journal/journal.ts";

/** What is fixed for the life of an agent. */
export interface AgentRules {
  readonly kind: AgentKind;
  /** The whole judgement of an offered manifest: signature, audience, freshness, replay. */
  readonly judge: (envelope: Envelope, facts: JudgeFacts) => Judgement;
  /** Whether the director wants that attempt to stop. */
  readonly judgeCancel: (
    cancel: CancelCommand,
    facts: Pick<JudgeFacts, "now" | "trust">,
  ) => CancelJudgement;
  /** Whether that trust document follows the one held here. */
  readonly nextTrust: (current: TrustDocument, envelope: Envelope, now: number) => TrustJudgement;
  /** The checkpoint in that envelope, if the checkpoint role signed it. */
  readonly openCheckpoint: (
    envelope: Envelope,
    trust: TrustDocument,
    now: number,
  ) => Checkpoint | { readonly because: string };
  readonly jobsMax: number;
  /** Logs, debug commands and statuses that people asked for, beside the others. */
  readonly debugJobsMax: number;
  /** More resumes than this of one attempt, and it ends as poisoned. */
  readonly resumesMax: number;
  /** Repositories of the vendor's registry that a build agent brings images to at its start. */
  readonly publishes: readonly string[];
}

export type CancelCommand = Extract<ServerCommand, { type: "job_cancel" }>;

export interface JudgeFacts {
  readonly trust: TrustDocument;
  readonly now: number;
  readonly lastIssueNo: number;
  readonly seenAttempts: { has(name: JobName): boolean };
}

export interface AgentState {
  /** The newest trust document: whose word counts. */
  readonly trust: TrustDocument;
  readonly journalId: string;
  readonly downAcked: number;
  readonly upHead: number;
  readonly upAcked: number;
  readonly issueNo: number;
  /** Nothing that was issued before this is accepted: what was accepted till then is not known. */
  readonly issuedFloor: number;
  readonly events: readonly JournaledEvent[];
  readonly jobs: ReadonlyMap<JobName, AgentJob>;
  readonly settled: ReadonlySet<JobName>;
  readonly schedule: ReadonlyMap<string, Scheduled>;
  readonly applied: Applied;
  readonly foreign: ReadonlySet<JobName>;
  /** What this agent saw of the server's record, oldest first. */
  readonly checkpoints: readonly KeptCheckpoint[];
  /** The record was refused since it was last taken: said once. */
  readonly isRecordRefused: boolean;
  /** This machine's clock is behind what the server was seen to have: said once. */
  readonly isClockBehind: boolean;
  readonly link: Link;
  readonly isDiskLow: boolean;
  readonly publishing: "idle" | "asked" | "running" | "done";
}

export type Link =
  | { readonly status: "down" }
  | {
      readonly status: "up";
      /** The server has shown on this connection that its record continues what was seen. */
      readonly isRecordShown?: boolean;
      /** Its record was refused: until then it is told why, and nothing is taken from it. */
      readonly leaving?: { readonly at: number; readonly because: string };
      /** Highest own event sent on this connection. */
      readonly sent: number;
      readonly logCreditBytes: number;
      readonly logChunkBytes: number;
    };

export interface AgentJob {
  readonly record: JobRecord;
  /** ready: may be launched. recovering: the runtime is being asked what became of it. */
  readonly phase: "ready" | "recovering" | "launching" | "running" | "ended";
  /** Whether this connection was asked for registry access for it. */
  readonly isGrantAsked: boolean;
  /** Given already, while a setup still waits for its join string. In memory alone. */
  readonly grant?: Grant | undefined;
  readonly log: LogProgress;
}

export interface LogProgress {
  /** Spooled here. */
  readonly bytes: number;
  readonly sent: number;
  /** Durable at the server. */
  readonly acked: number;
  /** Where sending was last set back: a second acknowledgement of the same place sets back once. */
  readonly rewoundAt?: number;
}

export interface Scheduled {
  readonly entry: ScheduleEntry;
  readonly dueAt: number;
  /** When a look-up last ended, since this agent started. */
  readonly lookedAt?: number | undefined;
  /** The look-up that is under way. */
  readonly running?: JobName | undefined;
  readonly isStopping?: boolean;
}

/** How a job ended, read from its output and its exit. */
export interface EndedJob {
  readonly outcome: Extract<AgentEvent, { type: "job_ended" }>["outcome"];
  readonly outputs: readonly KeptOutput[];
  readonly outputsDigest?: string | undefined;
  readonly artifacts: readonly ArtifactLine[];
  readonly result?: ResultLine | undefined;
  readonly report?: JobReport | undefined;
  readonly logBytes: number;
  readonly logSha256: string;
}

export interface NotLaunched {
  readonly code: FailureCode;
  readonly message: string;
  /** The runtime failed, and it may have begun all the same. */
  readonly mayHaveRun?: boolean | undefined;
  readonly logBytes: number;
  readonly logSha256: string;
}

export type PublishedImages = Extract<AgentEvent, { type: "images_published" }>["images"];

export type AgentInput = { readonly now: number } & AgentHappening;

/** What can happen to an agent; when is added by whoever has a clock. */
export type AgentHappening =
  /** After the journal was read: every job the runtime still knows. */
  | {
      readonly kind: "restored";
      readonly found: readonly JobName[];
      readonly fresh: boolean;
      /** What was found damaged or missing on the way. */
      readonly alarms?: readonly string[];
    }
  /** A part of this agent found something that the record should know of. */
  | { readonly kind: "noticed"; readonly code: string; readonly because: string }
  /** A job that a lost journal once knew has ended. */
  | { readonly kind: "foreign_exited"; readonly name: JobName; readonly because: string }
  | { readonly kind: "disconnected" }
  | { readonly kind: "frame"; readonly frame: ServerFrame | UnreadableCommand }
  | { readonly kind: "inspected"; readonly name: JobName; readonly run: JobRun }
  | { readonly kind: "launched"; readonly name: JobName }
  | { readonly kind: "not_launched"; readonly name: JobName; readonly why: NotLaunched }
  | { readonly kind: "spooled"; readonly name: JobName; readonly bytes: number }
  | { readonly kind: "exited"; readonly name: JobName; readonly ended: EndedJob }
  | {
      readonly kind: "status_seen";
      readonly component: string;
      readonly name: JobName;
      readonly seen: SeenHealth;
    }
  | { readonly kind: "published"; readonly images: PublishedImages }
  | { readonly kind: "publish_failed" }
  | { readonly kind: "disk"; readonly isLow: boolean }
  | { readonly kind: "tick" };

/** The agent's part of a hello that its state decides. */
export type HelloFacts = Pick<
  Extract<AgentFrame, { type: "hello" }>,
  | "trustVersion"
  | "checkpointSizes"
  | "downAcked"
  | "upHead"
  | "upFrom"
  | "journalId"
  | "issueNo"
  | "jobs"
>;

/** In order: what follows a journal effect happens only after it is on disk. */
export type AgentEffect =
  | { readonly kind: "journal"; readonly writes: readonly JournalWrite[] }
  | { readonly kind: "send"; readonly frame: AgentFrame }
  | { readonly kind: "hello"; readonly nonce: string; readonly facts: HelloFacts }
  | {
      readonly kind: "send_log";
      readonly name: JobName;
      readonly offset: number;
      readonly bytes: number;
    }
  | { readonly kind: "inspect"; readonly name: JobName }
  | {
      readonly kind: "launch";
      readonly record: JobRecord;
      readonly grant?: Grant | undefined;
      /** For a setup; journaled by nobody. */
      readonly joinString?: string | undefined;
    }
  /** Read its output from the first byte, and how it ended. */
  | { readonly kind: "follow"; readonly record: JobRecord }
  | { readonly kind: "stop"; readonly name: JobName; readonly graceMs: number }
  /** Forget it in the runtime. */
  | { readonly kind: "remove"; readonly name: JobName }
  | { readonly kind: "drop_spool"; readonly name: JobName }
  | { readonly kind: "status"; readonly name: JobName; readonly entry: ScheduleEntry }
  | { readonly kind: "publish"; readonly grant: Grant }
  /** To be durable before anything after it. */
  | {
      readonly kind: "keep_trust";
      readonly envelope: Envelope;
      readonly document: TrustDocument;
    }
  /** The next connection is made with it. Nothing that is decided here depends on it. */
  | { readonly kind: "keep_certificate"; readonly certificate: string }
  /** Later connections are held against them. */
  | { readonly kind: "keep_authorities"; readonly certificates: readonly string[] }
  /** Ends this connection; a new one is tried. */
  | { readonly kind: "close"; readonly because: string }
  | { readonly kind: "note"; readonly level: "info" | "warn"; readonly text: string };

/** The state a journal stands for: nothing is connected, and what was launched must be looked up. */
export function restoreState(snapshot: JournalSnapshot, trust: TrustDocument): AgentState {
  return {
    trust,
    journalId: snapshot.journalId,
    downAcked: snapshot.downAcked,
    upHead: snapshot.upHead,
    upAcked: snapshot.upAcked,
    issueNo: snapshot.issueNo,
    issuedFloor: snapshot.issuedFloor,
    events: snapshot.events,
    jobs: new Map(snapshot.jobs.map((record) => [record.name, restoredJob(record)])),
    schedule: new Map(snapshot.schedule.map((entry) => [entry.component, { entry, dueAt: 0 }])),
    applied: snapshot.applied,
    settled: new Set(snapshot.settled),
    foreign: new Set(snapshot.foreign),
    checkpoints: snapshot.checkpoints,
    isRecordRefused: false,
    isClockBehind: false,
    link: { status: "down" },
    isDiskLow: false,
    publishing: "idle",
  };
}

function restoredJob(record: JobRecord): AgentJob {
  const phases = {
    accepted: "ready",
    launching: "recovering",
    running: "recovering",
    ended: "ended",
  } as const;
  return {
    record,
    phase: phases[record.status],
    isGrantAsked: false,
    log: { bytes: record.logBytes ?? 0, sent: 0, acked: 0 },
  };
}
