// Where jobs run. The agent knows jobs only by name, so any runtime can be asked about any job, also
// one started by an earlier life of the agent. Runtimes differ; how is declared as capabilities, and one
// contract suite tests each by what it declares.

import {
  Failure,
  type JobClass,
  type JobExit,
  type JobName,
  type Limits,
  type Network,
} from "@exclave/core";

export interface JobSpec {
  readonly name: JobName;
  /** The image whose entrypoint runs, by digest, from the registry this install calls its own. */
  readonly image: ImageRef;
  /** Who the job is to the sandbox: one identity per class. */
  readonly jobClass: JobClass;
  /**
   * In the job's own directory before its program runs, readable by the job alone. How they get there is
   * the driver's business: it writes them where it shares a disk with the job, and uploads them where not.
   */
  readonly files: Readonly<Record<string, string>>;
  /** Everything the job sees beside the paths the runtime adds; nothing of the machine's is inherited. */
  readonly environment: Readonly<Record<string, string>>;
  /** A directory or volume that outlives the job, by name; the same name is the same place. */
  readonly stateVolume?: string;
  readonly limits: Limits;
  /** What the job may reach beside the install's own registry. */
  readonly network: Network;
  readonly deadlineMs: number;
}

export interface ImageRef {
  readonly registryUrl: string;
  readonly repository: string;
  readonly digest: string;
  readonly token?: string | undefined;
  /** Instead of a token: what the registry's token service gives one for. */
  readonly credential?: string | undefined;
  /** In PEM: who vouches for the registry; the machine's roots unless given. */
  readonly ca?: string | undefined;
  /** A unix socket that leads to the registry, instead of its address. */
  readonly socket?: string | undefined;
}

export type JobRun =
  | { readonly kind: "absent" }
  | { readonly kind: "waiting"; readonly because: string }
  | { readonly kind: "running" }
  | { readonly kind: "exited"; readonly exit: JobExit };

export type { JobExit };

/**
 * How a runtime holds a job to one of its limits. `enforced`: by the kernel, at once. `watched`: looked
 * at again and again, and the job is ended when it is over. `none`: not at all.
 */
export type Enforcement = "enforced" | "watched" | "none";

export type LimitEnforcement = { readonly [Name in keyof Limits]-?: Enforcement };

/** What a runtime can do, said plainly: the agent and the contract suite go by it. */
export interface RuntimeCapabilities {
  readonly limits: LimitEnforcement;
  /** Whether the kernel keeps a job from what it was not given: the network, and others' files. */
  readonly isolates: { readonly network: boolean; readonly files: boolean };
  /** Whether classes of jobs run as different users or roles. */
  readonly identities: boolean;
  /**
   * `kept`: every byte until the job is removed. `rotated`: the oldest may be gone, so whoever needs the
   * whole reads it while the job runs, keeps it, and resumes from where that ends.
   */
  readonly output: "kept" | "rotated";
  /** Whether stdout and stderr come in the order they were written, or each in its own. */
  readonly streams: "ordered" | "apart";
  /** What is known of a job that was stopped: its exit, or only that it was `stopped`. */
  readonly stoppedExit: "known" | "forgotten";
  /** Whether a program that a job left behind in a session of its own outlives the job. */
  readonly leavesPrograms: boolean;
}

/** The byte that was asked for was rotated away; `oldest` is the first one there is. */
export function outputGap(name: JobName, from: number, oldest: number): Failure {
  const message = `the output of ${name} from byte ${from} to ${oldest} was rotated away`;
  return new Failure("lost", message, { details: { oldestOutput: oldest } });
}

/** The first byte there is, if this is the failure of one who asked for an older one. */
export function oldestOutput(reason: unknown): number | undefined {
  const oldest = reason instanceof Failure ? reason.details.oldestOutput : undefined;
  return typeof oldest === "number" ? oldest : undefined;
}

export interface JobRuntime {
  readonly type: string;
  readonly capabilities: RuntimeCapabilities;

  /** Starts the job. A name that is already known starts nothing and is not an error. */
  start(spec: JobSpec): Promise<void>;

  /** What is known of the job now, from the world and not from memory. */
  inspect(name: JobName): Promise<JobRun>;

  /**
   * The job's output from that byte on, until it has ended and all was given, or `signal` fires. Where
   * output is rotated and the byte is gone, it throws an `outputGap`: what is left is never passed off as the whole.
   */
  output(name: JobName, from: number, signal: AbortSignal): AsyncIterable<Uint8Array>;

  /** SIGTERM to the job's first process, SIGKILL to all of it after `graceMs`. Returns once nothing of it runs. */
  stop(name: JobName, graceMs: number): Promise<void>;

  /** Forgets the job and removes what it left. Stops it first if it runs. Absent is not an error. */
  remove(name: JobName): Promise<void>;

  /** Every job that was started and not removed. */
  list(): Promise<JobName[]>;
}
