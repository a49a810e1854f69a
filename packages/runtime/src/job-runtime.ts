// Where jobs run. The agent knows jobs only by name, so any runtime can be asked about any job, also
// one started by an earlier life of the agent.

import type { JobExit, JobName, Limits } from "@exclave/core";

export interface JobSpec {
  readonly name: JobName;
  /** The image whose entrypoint runs, by digest, from the registry this install calls its own. */
  readonly image: ImageRef;
  /** Written into the job's own directory before it starts, readable by the job alone. */
  readonly files: Readonly<Record<string, string>>;
  /** Everything the job sees beside the paths the runtime adds; nothing is inherited. */
  readonly environment: Readonly<Record<string, string>>;
  /** A directory or volume that outlives the job, by name; the same name is the same place. */
  readonly stateVolume?: string;
  readonly limits: Limits;
  readonly deadlineMs: number;
}

export interface ImageRef {
  readonly registryUrl: string;
  readonly repository: string;
  readonly digest: string;
  readonly token?: string | undefined;
  /** Instead of a token: what the registry's token service gives one for. */
  readonly credential?: string | undefined;
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

export interface JobRuntime {
  readonly type: string;
  /** What it can do about each limit, said plainly. */
  readonly enforces: LimitEnforcement;

  /** Starts the job. A name that is already known starts nothing and is not an error. */
  start(spec: JobSpec): Promise<void>;

  /** What is known of the job now, from the world and not from memory. */
  inspect(name: JobName): Promise<JobRun>;

  /** The job's output from that byte on, until it has ended and all was given, or `signal` fires. */
  output(name: JobName, from: number, signal: AbortSignal): AsyncIterable<Uint8Array>;

  /** SIGTERM to the job's first process, SIGKILL to all of it after `graceMs`. Returns once nothing of it runs. */
  stop(name: JobName, graceMs: number): Promise<void>;

  /** Forgets the job and removes what it left. Stops it first if it runs. Absent is not an error. */
  remove(name: JobName): Promise<void>;

  /** Every job that was started and not removed. */
  list(): Promise<JobName[]>;
}
