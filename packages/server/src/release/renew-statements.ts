// After a release key was revoked, what it stated is stated again with the keys that count now: the
// same words about the same index, attached beside it by the build agent. Agents that no longer take the
// old statement find the new one with their next sync. Level-based, newest first, a few at a time.

import { type Digest, digestOf, Instant, keysOfRole } from "@exclave/core";
import { audit, type ServerContext } from "../context.ts";
import { tryIssueJob } from "../job/issue-job.ts";
import type { InstallRow, JobRow, ReleaseRow } from "../store/rows.ts";
import type { Tables } from "../store/store.ts";
import { type ReadApp, releaseIndex, signOrder } from "./release-loop.ts";
import { sealRelease } from "./sign-release.ts";

const PAGE = 100;
const OPEN_MAX = 4;
const RETRY_MS = 60_000;

export interface StatementFacts {
  /** Keys of the release role that count now, and how many of them it takes. */
  readonly keyids: readonly string[];
  readonly threshold: number;
  /** Whose signatures count for a release that was stated before that was written down. */
  readonly firstKeyids: readonly string[];
  /** Under which the end of this round's job is remembered. */
  readonly buildKey: Digest;
  readonly isAttached: boolean;
  readonly job: Pick<JobRow, "purpose" | "failure" | "endedAt"> | undefined;
  readonly now: Instant;
}

export type StatementPlan =
  | { readonly kind: "counts" | "sign" | "attached" | "busy" }
  | { readonly kind: "later"; readonly at: Instant };

/** What the statement of a ready release needs. */
export function planStatement(
  release: Pick<ReleaseRow, "signedBy" | "unsignedBecause">,
  facts: StatementFacts,
): StatementPlan {
  const { keyids, threshold, buildKey, job, now } = facts;
  const signedBy = release.signedBy ?? facts.firstKeyids;
  const counted = signedBy.filter((keyid) => keyids.includes(keyid)).length;
  if (counted >= threshold || release.unsignedBecause !== null) return { kind: "counts" };
  if (facts.isAttached) return { kind: "attached" };
  const isOurs = job?.purpose.kind === "assemble" && job.purpose.buildKey === buildKey;
  if (!job || !isOurs) return { kind: "sign" };
  if (job.endedAt === null) return { kind: "busy" };
  const at = Instant.parse(job.endedAt + RETRY_MS);
  return at <= now ? { kind: "sign" } : { kind: "later", at };
}

/** One look at every statement, unless no release key was ever revoked; when to look again, if ever. */
export async function renewStatements(
  context: ServerContext,
  readApp: ReadApp,
): Promise<Instant | undefined> {
  const { trust, store, now } = context;
  const role = keysOfRole(trust.current().document, "release", now());
  const keyids = role.keys.map(({ keyid }) => keyid);
  const listed = trust.after(0).map(({ document }) => document.roles.release.keyids);
  if (listed.flat().every((keyid) => keyids.includes(keyid))) return undefined;

  const by = (await trust.signingKeys("release")).map(({ keyid }) => keyid);
  let open = 0;
  let until: Instant | undefined;
  for (let cursor: string | undefined; ; ) {
    const page = await store.read.releases.list({ limit: PAGE, ...(cursor ? { cursor } : {}) });
    for (const release of page.items) {
      if (open >= OPEN_MAX) return until;
      if (release.state !== "ready") continue;
      const buildKey = digestOf({ sign: release.id, by });
      const plan = planStatement(release, {
        keyids,
        threshold: role.threshold,
        firstKeyids: listed[0] ?? [],
        buildKey,
        isAttached: (await store.read.builds.get(buildKey)) !== undefined,
        job: release.signJob === null ? undefined : await store.read.jobs.get(release.signJob),
        now: now(),
      });
      if (plan.kind === "attached") await attached(context, release, by);
      if (plan.kind === "sign") await stateAgain(context, readApp, { release, buildKey });
      if (plan.kind === "sign" || plan.kind === "busy") open++;
      if (plan.kind === "later") until = until === undefined || plan.at < until ? plan.at : until;
    }
    if (page.next === null) return until;
    cursor = page.next;
  }
}

async function stateAgain(
  context: ServerContext,
  readApp: ReadApp,
  { release, buildKey }: { readonly release: ReleaseRow; readonly buildKey: Digest },
): Promise<void> {
  const index = releaseIndex(release);
  if (!index) return;
  const sealed = await sealRelease(context, release, readApp(release), index);
  await context.store.transaction(async (tx) => {
    const current = await tx.releases.get(release.id);
    if (current?.state !== "ready" || current.signJob !== release.signJob) return;
    if (sealed.kind === "refused") {
      await tx.releases.put({ ...current, unsignedBecause: sealed.because });
      await onRecord(tx, context, current, "release.not_stated_again", { because: sealed.because });
      return;
    }
    const because = `a key that signed release ${current.version} was revoked`;
    const order = signOrder(current, { kind: "sign", index, buildKey, because }, sealed);
    const issued = await tryIssueJob(tx, context, order);
    await tx.releases.put(
      "failure" in issued
        ? { ...current, unsignedBecause: issued.failure.message }
        : { ...current, signJob: issued.job.id },
    );
  });
  context.wake.outbox("build");
}

/** The new statement lies beside the index: whoever gave up for want of it tries again. */
async function attached(
  context: ServerContext,
  { id }: ReleaseRow,
  signedBy: readonly string[],
): Promise<void> {
  await context.store.transaction(async (tx) => {
    const release = await tx.releases.get(id);
    if (!release) return;
    await tx.releases.put({ ...release, signedBy: [...signedBy] });
    await onRecord(tx, context, release, "release.stated_again", { signedBy });
    for (const install of await tx.installs.all()) {
      const after = install.app === release.app ? tryAgain(install) : install;
      if (after !== install) await tx.installs.put({ ...after, revision: install.revision + 1 });
    }
  });
  context.wake.allInstalls();
}

function tryAgain(install: InstallRow): InstallRow {
  const { syncFailure, sandboxFailure } = install;
  if (syncFailure?.code !== "signature" && sandboxFailure?.code !== "signature") return install;
  return {
    ...install,
    syncFailure: syncFailure?.code === "signature" ? null : syncFailure,
    sandboxFailure: sandboxFailure?.code === "signature" ? null : sandboxFailure,
  };
}

function onRecord(
  tx: Tables,
  context: ServerContext,
  { id, app, appName, version, number }: ReleaseRow,
  action: string,
  details: Readonly<Record<string, unknown>>,
): Promise<unknown> {
  return audit(tx, context, {
    actor: "server",
    action,
    subject: id,
    details: { app, appName, version, number, ...details },
  });
}
