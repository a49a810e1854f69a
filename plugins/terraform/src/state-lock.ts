// One job at a time works on a component's state. Terraform's own lock does not say who holds it in
// a way that outlives a kill, so every locking operation leaves word: which job, which attempt, which
// processes. A lock is broken only when all of those processes are known to be gone.

import { randomBytes } from "node:crypto";
import { link, readFile, rm, writeFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import {
  Failure,
  identifyProcess,
  isRunning,
  ProcessIdentity,
  writeDurably,
  z,
} from "@exclave/plugin-sdk";
import type { ComponentState } from "./component-state.ts";

export const LockOwner = z.object({
  job: z.string(),
  attempt: z.int(),
  processes: z.array(ProcessIdentity),
});
export type LockOwner = z.infer<typeof LockOwner>;

export type LockDecision =
  | { readonly kind: "free" }
  | { readonly kind: "break"; readonly because: string }
  | { readonly kind: "held"; readonly because: string };

export interface LockFacts {
  /** Undefined: nobody left word. Unreadable: the machine went down while somebody did. */
  readonly owner: LockOwner | "unreadable" | undefined;
  readonly isOwnerRunning: boolean;
}

export function decideLock({ owner, isOwnerRunning }: LockFacts): LockDecision {
  // Without word of ours Terraform's lock is somebody else's: Terraform itself finds out whether
  // its holder lives, because the system drops the lock on the file with the process.
  if (owner === undefined) return { kind: "free" };
  if (owner === "unreadable") {
    return { kind: "break", because: "the machine went down while its owner took it" };
  }
  const who = `job ${owner.job}, attempt ${owner.attempt}`;
  return isOwnerRunning
    ? { kind: "held", because: `${who}, is still at work on this component's state` }
    : { kind: "break", because: `${who}, held it and its processes are gone` };
}

export interface LockOptions {
  readonly state: ComponentState;
  readonly job: string;
  readonly attempt: number;
  readonly log: (message: string) => void;
  /** How long an owner may take to end before this fails; a job killed a moment ago needs some. */
  readonly patienceMs?: number;
}

export interface HeldLock {
  /** A program works under this lock as well: the lock is not over before it is. */
  adopt(pid: number): void;
}

export async function withStateLock<Result>(
  options: LockOptions,
  work: (lock: HeldLock) => Promise<Result>,
): Promise<Result> {
  const { state, job, attempt } = options;
  const self = identifyProcess(process.pid);
  const processes = self ? [self] : [];
  await take(options, { job, attempt, processes });
  let recording = Promise.resolve();
  try {
    return await work({
      adopt: (pid) => {
        recording = recording.then(() => record(pid)).catch(reportUnrecorded);
      },
    });
  } finally {
    await recording;
    await rm(state.ownerFile, { force: true });
  }

  async function record(pid: number): Promise<void> {
    const program = identifyProcess(pid);
    if (!program) return;
    processes.push(program);
    await writeDurably(state.ownerFile, JSON.stringify({ job, attempt, processes }));
  }

  // The tool holds a lock of its own, so it may go on; but somebody should know.
  function reportUnrecorded(reason: unknown): void {
    options.log(`cannot write down who holds the state lock: ${String(reason)}`);
  }
}

async function take(options: LockOptions, owner: LockOwner): Promise<void> {
  const { state, log, patienceMs = 5_000 } = options;
  const until = performance.now() + patienceMs;
  for (;;) {
    const decision = decideLock(await look(state));
    switch (decision.kind) {
      case "free":
        if (await claim(state, owner)) return;
        break;
      case "break":
        log(`removing the state lock: ${decision.because}`);
        await rm(state.lockFile, { force: true });
        await rm(state.ownerFile, { force: true });
        break;
      case "held":
        if (performance.now() >= until) throw new Failure("conflict", decision.because);
        await sleep(100);
        break;
    }
  }
}

async function look({ ownerFile }: ComponentState): Promise<LockFacts> {
  const text = await readFile(ownerFile, "utf8").catch(() => undefined);
  if (text === undefined) return { owner: undefined, isOwnerRunning: false };
  const owner = parseOwner(text);
  const processes = owner === "unreadable" ? [] : owner.processes;
  return { owner, isOwnerRunning: processes.some((one) => isRunning(one)) };
}

function parseOwner(text: string): LockOwner | "unreadable" {
  try {
    return LockOwner.parse(JSON.parse(text));
  } catch {
    return "unreadable";
  }
}

/** False when somebody else came first. A link, so that the file is whole when it appears. */
async function claim({ ownerFile }: ComponentState, owner: LockOwner): Promise<boolean> {
  const draft = `${ownerFile}.${randomBytes(4).toString("hex")}.draft`;
  await writeFile(draft, JSON.stringify(owner), { mode: 0o600, flush: true });
  try {
    await link(draft, ownerFile);
    return true;
  } catch (reason) {
    if ((reason as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw reason;
  } finally {
    await rm(draft, { force: true });
  }
}
