// What the end of a setup, a teardown or a sync makes of what is remembered of an install.

import { digestOf } from "../encoding/sha256.ts";
import type { Digest, Instant } from "../ids.ts";
import type { ArtifactRef } from "../manifest/manifest.ts";
import { artifactKey } from "../plan/install-state.ts";
import { countFailure, type FailedAttempts } from "./failed-attempts.ts";
import type { JobFailure } from "./job-failure.ts";

export const RUNNER_REPOSITORY = "exclave/runner";

export interface InstallRecord {
  /** attempted: a setup was begun, so there may be something to take down. */
  readonly sandboxState: "absent" | "attempted" | "present" | "destroyed";
  readonly sandboxFailure: FailedAttempts | null;
  /** What lies in the install's own registry. */
  readonly synced: ArtifactRef[];
  /** The newest runner it has. */
  readonly runner: ArtifactRef | null;
  readonly syncFailure: FailedAttempts | null;
}

export interface SandboxJobEnd {
  readonly kind: "setup" | "teardown";
  readonly at: Instant;
  readonly failure?: JobFailure | undefined;
  /** What the job read from the vendor's registry: a setup seeds the install's with the runner. */
  readonly reads: readonly ArtifactRef[];
  /** The release it was made from: its failure says nothing of another one. */
  readonly release: string | null;
}

export function sandboxKey(release: string): Digest {
  return digestOf({ release });
}

type Changes<Row, Key extends keyof InstallRecord> = Omit<Row, Key> & Pick<InstallRecord, Key>;

export function endSandboxJob<Row extends InstallRecord>(
  row: Row,
  { kind, at, failure, reads, release }: SandboxJobEnd,
): Changes<Row, "sandboxState" | "sandboxFailure" | "synced" | "runner"> {
  if (failure) {
    const key = release === null ? undefined : sandboxKey(release);
    return { ...row, sandboxFailure: countFailure(row.sandboxFailure, key, failure, at) };
  }
  if (kind === "teardown") return { ...row, sandboxState: "destroyed", sandboxFailure: null };
  // Setup leaves a registry with the runner in it, and nothing else.
  const runner = reads.find(isRunner) ?? null;
  const synced = runner ? [runner] : [];
  return { ...row, sandboxState: "present", sandboxFailure: null, synced, runner };
}

export interface SyncJobEnd {
  readonly key: Digest;
  readonly materials: readonly ArtifactRef[];
  readonly at: Instant;
  readonly failure?: JobFailure | undefined;
}

export function endSync<Row extends InstallRecord>(
  row: Row,
  { key, materials, at, failure }: SyncJobEnd,
): Changes<Row, "synced" | "runner" | "syncFailure"> {
  // Whatever a failed sync copied was confirmed by nobody; the next one copies only what is missing.
  if (failure) return { ...row, syncFailure: countFailure(row.syncFailure, key, failure, at) };
  const synced = new Map([...row.synced, ...materials].map((ref) => [artifactKey(ref), ref]));
  const runner = materials.find(isRunner) ?? row.runner;
  return { ...row, synced: [...synced.values()], runner, syncFailure: null };
}

/**
 * Something that was synced is gone: the registry was restored, or cleaned by somebody. The next sync
 * compares all of it and moves only what is missing.
 */
export function forgetSynced<Row extends Pick<InstallRecord, "synced" | "runner">>(
  row: Row,
): Omit<Row, "synced"> & Pick<InstallRecord, "synced"> {
  return { ...row, synced: row.runner ? [row.runner] : [] };
}

function isRunner({ repository }: ArtifactRef): boolean {
  return repository === RUNNER_REPOSITORY;
}
