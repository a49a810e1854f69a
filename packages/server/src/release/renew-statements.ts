// After a release key was revoked, what it stated is stated again with the keys that count now: the
// same words about the same index, attached beside it by the build agent. Agents that no longer take the
// old statement find the new one with their next sync. Level-based, newest first, a few at a time.

import { type Digest, digestOf, Instant, type TrustDocument } from "@exclave/core";
import { audit, type ServerContext } from "../context.ts";
import { tryIssueJob } from "../job/issue-job.ts";
import type { InstallRow, JobRow, ReleaseRow } from "../store/rows.ts";
import type { Tables } from "../store/store.ts";
import { type ReadApp, releaseIndex, signOrder } from "./release-loop.ts";
import { sealRelease } from "./sign-release.ts";
import { isCounted, type StatementKeys, statementKeys } from "./statement-keys.ts";

const PAGE = 100;
const OPEN_MAX = 4;
const RETRY_MS = 60_000;

export interface StatementFacts extends StatementKeys {
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
  const { buildKey, job, now } = facts;
  if (isCounted(release, facts)) return { kind: "counts" };
  if (facts.isAttached) return { kind: "attached" };
  const isOurs = job?.purpose.kind === "assemble" && job.purpose.buildKey === buildKey;
  if (!job || !isOurs) return { kind: "sign" };
  if (job.endedAt === null) return { kind: "busy" };
  const at = Instant.parse(job.endedAt + RETRY_MS);
  return at <= now ? { kind: "sign" } : { kind: "later", at };
}

/** One look at the statements that count no more; when to look again, if ever. */
export async function renewStatements(
  context: ServerContext,
  readApp: ReadApp,
): Promise<Instant | undefined> {
  const { trust, store, now } = context;
  const documents = trust.after(0).map(({ document }) => document);
  const keys = statementKeys(documents, now());
  await findStale(context, documents, keys);

  let by: string[] | undefined;
  let open = 0;
  let until: Instant | undefined;
  for (let cursor: string | undefined; ; ) {
    const page = await store.read.restatements.list({ limit: PAGE, ...(cursor ? { cursor } : {}) });
    for (const { release: id } of page.items) {
      if (open >= OPEN_MAX) return until;
      const release = await store.read.releases.get(id);
      if (!release) continue;
      by ??= (await trust.signingKeys("release")).map(({ keyid }) => keyid);
      const buildKey = digestOf({ sign: id, by });
      const plan = planStatement(release, {
        ...keys,
        buildKey,
        isAttached: (await store.read.builds.get(buildKey)) !== undefined,
        job: release.signJob === null ? undefined : await store.read.jobs.get(release.signJob),
        now: now(),
      });
      if (plan.kind === "counts") await store.transaction((tx) => tx.restatements.remove(id));
      if (plan.kind === "attached") await attached(context, release, by);
      if (plan.kind === "sign") await stateAgain(context, readApp, { release, buildKey });
      if (plan.kind === "sign" || plan.kind === "busy") open++;
      if (plan.kind === "later") until = until === undefined || plan.at < until ? plan.at : until;
    }
    if (page.next === null) return until;
    cursor = page.next;
  }
}

/**
 * Goes through all releases, once for each version of the trust document that changed the release keys: what it
 * finds is written down, and later looks read only that. Begun anew after a crash.
 */
async function findStale(
  { trust, store }: ServerContext,
  documents: readonly TrustDocument[],
  keys: StatementKeys,
): Promise<void> {
  const { version } = trust.current().document;
  const row = await store.read.trust.get(String(version));
  if (!row || row.areReleasesChecked) return;
  if (!(await isSameAsBefore({ store }, documents))) {
    for (let cursor: string | undefined; ; ) {
      const page = await store.read.releases.list({ limit: PAGE, ...(cursor ? { cursor } : {}) });
      const stale = page.items.filter(
        (release) => release.state === "ready" && !isCounted(release, keys),
      );
      await store.transaction(async (tx) => {
        for (const { id } of stale) await tx.restatements.put({ release: id });
      });
      if (page.next === null) break;
      cursor = page.next;
    }
  }
  await store.transaction((tx) => tx.trust.put({ ...row, areReleasesChecked: true }));
}

/** Whether the version before had the same release keys and its releases were gone through. */
async function isSameAsBefore(
  { store }: Pick<ServerContext, "store">,
  documents: readonly TrustDocument[],
): Promise<boolean> {
  const [before, current] = documents.slice(-2);
  if (!current) return documents.length === 1;
  const row = await store.read.trust.get(String(before?.version));
  return (
    row?.areReleasesChecked === true &&
    digestOf(before?.roles.release) === digestOf(current.roles.release)
  );
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
      await tx.restatements.remove(current.id);
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

/** The new statement lies beside the index: whoever gave up for want of it retries. */
async function attached(
  context: ServerContext,
  { id }: ReleaseRow,
  signedBy: readonly string[],
): Promise<void> {
  await context.store.transaction(async (tx) => {
    const release = await tx.releases.get(id);
    if (!release) return;
    await tx.releases.put({ ...release, signedBy: [...signedBy] });
    await tx.restatements.remove(id);
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
