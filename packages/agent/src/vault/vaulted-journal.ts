// A journal with a vault beside it. Secrets and outputs live in the vault alone; schedules, launched
// jobs, floors, checkpoints and the releases that components come from are in both, so that an agent whose journal was lost still knows what to watch, what
// it left running, what it must not accept a second time and which record its server had.
//
// Order is the argument. What the vault must have is written before the journal's commit: after a crash
// in between the same input comes again and writes the same. What the vault may let go of, and floors,
// follow the commit: a floor that is ahead of the journal would refuse an offer nobody has accepted.

import { z } from "zod";
import {
  Applied,
  JobRecord,
  type Journal,
  type JournalSnapshot,
  type JournalWrite,
  KeptCheckpoint,
  KeptOutput,
  ScheduleEntry,
} from "../journal/journal.ts";
import { isReleaseWrite } from "../journal/release-memory.ts";
import type { Log } from "../log.ts";
import { KeptReleases, keepRelease, mergeReleases } from "./kept-releases.ts";
import type { Vault } from "./vault.ts";

export interface VaultedJournalOptions {
  readonly journal: Journal;
  readonly vault: Vault;
  /**
   * Set for an agent that has lived before: where neither journal nor vault knows a floor, nothing
   * that was issued before this instant is accepted.
   */
  readonly lostBefore?: number | undefined;
  readonly log: Log;
}

const Floor = z.object({ issueNo: z.int().nonnegative(), issuedFloor: z.int().nonnegative() });
type Floor = z.infer<typeof Floor>;
// Made once: making a schema costs far more than reading with it.
const Outputs = z.array(KeptOutput);
const Secret = z.string().optional();
const JobSecrets = z.array(z.string());
const FloorIfKept = Floor.optional();
const Checkpoints = z.array(KeptCheckpoint);
const ReleasesIfKept = KeptReleases.optional();
// Without what was last seen: the server may have lost it too, and is told anew.
const ScheduleAnew = ScheduleEntry.omit({ last: true });
const FLOOR = "accepted";
const CHECKPOINTS = "seen";
const APPLIED = "components";

export function createVaultedJournal(options: VaultedJournalOptions): Journal {
  const { journal, vault, log } = options;
  const orWarn = warnedBy(log);
  let floor: Floor | undefined;

  return {
    load,
    commit,
    outputs: () =>
      new Map(
        vault.entries("outputs").map(({ name, value }) => [name, Outputs.parse(value)] as const),
      ),
    secret: (name) => Secret.parse(vault.read("secret", name)),
    jobSecrets: (name) => JobSecrets.parse(vault.read("job-secrets", name) ?? []),
    statement: (index) => journal.statement(index),
    statements: () => journal.statements(),
    releases: (install) => mergeReleases(journal.releases(install), keptReleases(install)),
    close: () => journal.close(),
  };

  function load(): JournalSnapshot {
    const snapshot = journal.load();
    const kept = keptFloor();
    floor = {
      issueNo: Math.max(snapshot.issueNo, kept?.issueNo ?? 0),
      issuedFloor: Math.max(snapshot.issuedFloor, kept?.issuedFloor ?? 0),
    };
    if (snapshot.fresh) {
      const rescued = orWarn("the vault cannot be read", () => rescuedFrom(vault)) ?? {};
      const checkpoints = keptCheckpoints();
      return { ...snapshot, ...floorAfterLoss(floor, kept), ...rescued, checkpoints };
    }
    orWarn("the vault keeps entries of jobs that are over", () => sweepJobs(vault, snapshot.jobs));
    return { ...snapshot, ...floor };
  }

  function keptFloor(): Floor | undefined {
    return orWarn("the vault's floor cannot be read", () =>
      FloorIfKept.parse(vault.read("floor", FLOOR)),
    );
  }

  function keptCheckpoints(): readonly KeptCheckpoint[] {
    const kept = orWarn("the vault's checkpoints cannot be read", () =>
      Checkpoints.parse(vault.read("checkpoints", CHECKPOINTS) ?? []),
    );
    return kept ?? [];
  }

  function floorAfterLoss(known: Floor, kept: Floor | undefined): Floor {
    return kept ? known : { ...known, issuedFloor: options.lostBefore ?? 0 };
  }

  function commit(writes: readonly JournalWrite[]): void {
    for (const write of writes) keepBefore(vault, write);
    journal.commit(writes.filter((write) => !isVaultOnly(write)));
    // From here on nothing may fail: the journal has it, and the next start sweeps.
    orWarn("the vault keeps what is over for now", () => {
      for (const write of writes) followAfter(vault, write);
      keepFloor(writes);
      keepReleases(writes);
    });
  }

  function keepFloor(writes: readonly JournalWrite[]): void {
    const before = floor ?? keptFloor();
    let { issueNo, issuedFloor } = before ?? { issueNo: 0, issuedFloor: 0 };
    for (const write of writes) {
      if (write.kind === "issue") issueNo = Math.max(issueNo, write.issueNo);
      if (write.kind === "issued_floor") issuedFloor = Math.max(issuedFloor, write.at);
    }
    if (before && issueNo === before.issueNo && issuedFloor === before.issuedFloor) return;
    vault.keep("floor", FLOOR, { issueNo, issuedFloor });
    floor = { issueNo, issuedFloor };
  }

  function keepReleases(writes: readonly JournalWrite[]): void {
    for (const write of writes) {
      if (!isReleaseWrite(write) || write.kind === "statement") continue;
      const after = keepRelease(keptReleases(write.install), write);
      if (after) vault.keep("releases", write.install, after);
      else vault.drop("releases", write.install);
    }
  }

  function keptReleases(install: string): KeptReleases | undefined {
    return orWarn("the vault's floor of releases cannot be read", () =>
      ReleasesIfKept.parse(vault.read("releases", install)),
    );
  }
}

/** What fails is logged, and comes back as undefined. */
function warnedBy(log: Log): <Value>(what: string, work: () => Value) => Value | undefined {
  return (what, work) => {
    try {
      return work();
    } catch (reason) {
      log.error(what, { reason });
      return undefined;
    }
  };
}

/** What a lost journal had and the vault still has. */
function rescuedFrom(vault: Vault): Partial<JournalSnapshot> {
  return {
    applied: Applied.parse(vault.read("applied", APPLIED) ?? {}),
    jobs: vault.entries("job").map(({ value }) => JobRecord.parse(value)),
    schedule: vault.entries("schedule").map(({ value }) => ScheduleAnew.parse(value)),
  };
}

function sweepJobs(vault: Vault, jobs: readonly JobRecord[]): void {
  const open = new Set<string>(jobs.filter(isLaunched).map(({ name }) => name));
  for (const { name } of vault.entries("job")) if (!open.has(name)) vault.drop("job", name);
}

function keepBefore(vault: Vault, write: JournalWrite): void {
  switch (write.kind) {
    case "secret":
      return vault.keep("secret", write.name, write.value);
    case "job_secrets":
      return vault.keep("job-secrets", write.name, write.secrets);
    case "outputs":
      return vault.keep("outputs", write.component, write.outputs);
    case "outputs_removed":
      return vault.drop("outputs", write.component);
    case "schedule":
      return vault.keep("schedule", write.entry.component, write.entry);
    case "schedule_removed":
      return vault.drop("schedule", write.component);
    case "checkpoints":
      return vault.keep("checkpoints", CHECKPOINTS, write.list);
    case "applied":
      return vault.keep("applied", APPLIED, write.applied);
    case "job":
      return isLaunched(write.record)
        ? vault.keep("job", write.record.name, write.record)
        : undefined;
    default:
      return undefined;
  }
}

function followAfter(vault: Vault, write: JournalWrite): void {
  if (write.kind === "job" && write.record.status === "ended") vault.drop("job", write.record.name);
  if (write.kind === "job_removed") {
    vault.drop("job", write.name);
    vault.drop("job-secrets", write.name);
  }
}

function isLaunched({ status }: JobRecord): boolean {
  return status === "launching" || status === "running";
}

function isVaultOnly({ kind }: JournalWrite): boolean {
  return ["secret", "job_secrets", "outputs", "outputs_removed"].includes(kind);
}
