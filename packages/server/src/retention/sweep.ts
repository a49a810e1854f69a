// Takes away what the settings say is old and what no row names, a few rows at a time. It can be killed anywhere and
// run again: what is left is found by the next sweep. Files go before the row that names them, and content of the
// registry goes after every row that named it.

import { setImmediate as nextTurn } from "node:timers/promises";
import { forgetManifests } from "@exclave/oci";
import type { RegistryPlace } from "../content/server-content.ts";
import { audit, type ServerContext } from "../context.ts";
import type { JobRow, ReleaseRow } from "../store/rows.ts";
import type { Page, PageOf, Tables } from "../store/store.ts";
import {
  digestsNamed,
  isBuildDue,
  isJobDue,
  isJoinDue,
  makesNeeded,
  type RetentionSettings,
  releasesDue,
  releasesOfChannels,
  releasesOfInstall,
} from "./retention-rules.ts";

type Context = Pick<ServerContext, "store" | "logs" | "now">;

export interface Swept {
  readonly jobs: number;
  readonly joins: number;
  readonly releases: number;
  readonly manifests: number;
}

export interface SweepOptions {
  readonly settings: RetentionSettings;
  /** The vendor's registry. */
  readonly registry: RegistryPlace;
  /** Lets others go first; a turn of the event loop unless given. */
  readonly nextTurn?: () => Promise<void>;
  /** It is to end: nothing more is begun. */
  readonly signal?: AbortSignal;
}

/** So few at a time that a transaction is over in a few milliseconds. */
const BATCH = 25;
/** What was pushed lately may be about to be named. */
const MANIFEST_GRACE_MS = 7 * 24 * 60 * 60_000;

export async function sweep(context: Context, options: SweepOptions): Promise<Swept> {
  const jobs = await sweepJobs(context, options);
  const joins = await sweepJoins(context, options);
  const releases = await sweepReleases(context, options);
  const manifests = await sweepRegistry(context, options);
  return { jobs, joins, releases, manifests };
}

export async function sweepJobs(context: Context, options: SweepOptions): Promise<number> {
  const { store, logs, now } = context;
  const before = now() - options.settings.jobsMs;
  const building = new Set((await store.read.releases.building()).map(({ id }) => id));
  let count = 0;
  for await (const page of pages(options, (at) => store.read.jobs.oldest(at))) {
    const due = page.filter((job) => isJobDue(job, before, building));
    for (const job of due) await removeLogs(logs, job);
    if (due.length > 0) {
      await store.transaction(async (tx) => {
        for (const { id } of due) await tx.jobs.remove(id);
        await noteAged(tx, context, "job.aged_out", { count: due.length, before });
      });
    }
    count += due.length;
    // Jobs are listed as they were made: none behind this one has ended earlier than it was made.
    if ((page.at(-1)?.createdAt ?? 0) >= before) break;
  }
  return count;
}

async function removeLogs(logs: Context["logs"], { id, attempt }: JobRow): Promise<void> {
  for (let n = 1; n <= attempt; n++) await logs.remove(id, n);
}

async function sweepJoins(context: Context, options: SweepOptions): Promise<number> {
  const { store, now } = context;
  let count = 0;
  for await (const page of pages(options, (at) => store.read.joins.oldest(at))) {
    const due = page.filter((join) => isJoinDue(join, now()));
    if (due.length > 0) {
      await store.transaction(async (tx) => {
        for (const { hash } of due) await tx.joins.remove(hash);
      });
    }
    count += due.length;
  }
  return count;
}

export async function sweepReleases(context: Context, options: SweepOptions): Promise<number> {
  const { store, now } = context;
  const before = now() - options.settings.releasesMs;
  const due: ReleaseRow[] = [];
  for (const { id } of await store.read.apps.all()) {
    const releases: ReleaseRow[] = [];
    for await (const page of pages(options, (at) => store.read.releases.ofApp(id, at))) {
      releases.push(...page);
    }
    due.push(...releasesDue(releases, before));
  }
  if (due.length === 0) return 0;
  // Whatever could make a release needed after it was looked for is on record behind this.
  const { size } = await store.read.audit.head();
  const needed = await releasesNeeded(context, options);
  let count = 0;
  for (const release of due.filter(({ id }) => !needed.has(id))) {
    if (options.signal?.aborted) break;
    const isGone = await store.transaction(async (tx) => {
      if (await isAskedForSince(tx, size)) return false;
      await tx.restatements.remove(release.id);
      await tx.releases.remove(release.id);
      const { id, app, appName, version, digest, createdAt } = release;
      const details = { app, appName, version, digest, createdAt };
      await noteAged(tx, context, "release.aged_out", details, id);
      return true;
    });
    // The next sweep looks anew.
    if (!isGone) break;
    count++;
    await (options.nextTurn ?? nextTurn)();
  }
  return count;
}

async function releasesNeeded({ store }: Context, options: SweepOptions): Promise<Set<string>> {
  const { read } = store;
  const needed = new Set(releasesOfChannels(await read.channels.all()));
  for await (const page of pages(options, (at) => read.installs.oldest(at))) {
    for (const install of page) {
      const components = await read.components.ofInstall(install.id);
      for (const release of releasesOfInstall(install, components)) needed.add(release);
      const open = await read.jobs.openOfInstall(install.id);
      for (const { release } of open) if (release !== null) needed.add(release);
    }
  }
  for (const { release } of await read.jobs.open("build")) if (release) needed.add(release);
  return needed;
}

const SINCE_MAX = 2_000;

async function isAskedForSince(
  { audit: record }: Pick<Tables, "audit">,
  seq: number,
): Promise<boolean> {
  const since = await record.after(seq, SINCE_MAX);
  return since.length === SINCE_MAX || since.some(makesNeeded);
}

/** Builds that no release is made of any more, then content that no row names. */
export async function sweepRegistry(context: Context, options: SweepOptions): Promise<number> {
  const { store, now } = context;
  const { read } = store;
  const before = now() - options.settings.releasesMs;
  const { size } = await read.audit.head();
  const named = new Set<string>();
  const add = (digests: readonly string[]) => {
    for (const digest of digests) named.add(digest);
  };
  for await (const page of pages(options, (at) => read.releases.oldest(at))) {
    add(digestsNamed({ releases: page }));
  }
  const images = await read.images.all();
  // A server that knows of nothing has not begun, or is not the one this registry belongs to.
  if (images.length === 0) return 0;
  for await (const page of pages(options, (at) => read.builds.oldest(at))) {
    const due = page.filter((build) => isBuildDue(build, before, named));
    for (const { buildKey } of due) await store.transaction((tx) => tx.builds.remove(buildKey));
    add(digestsNamed({ builds: page.filter((build) => !due.includes(build)) }));
  }
  for await (const page of pages(options, (at) => read.installs.oldest(at))) {
    add(digestsNamed({ installs: page }));
    for (const { id } of page) add(digestsNamed({ open: await read.jobs.openOfInstall(id) }));
  }
  add(digestsNamed({ images, open: await read.jobs.open("build") }));
  // Somebody asked for something meanwhile, which may name what was not named when it was looked for.
  if (options.signal?.aborted || (await isAskedForSince(read, size))) return 0;
  const manifests = await forgetManifests({
    ...options.registry,
    keep: named,
    now: Date.now(),
    graceMs: MANIFEST_GRACE_MS,
    onEach: options.nextTurn ?? nextTurn,
  });
  if (manifests > 0) {
    await store.transaction((tx) => noteAged(tx, context, "registry.aged_out", { manifests }));
  }
  return manifests;
}

async function* pages<Row>(
  { nextTurn: turn = nextTurn, signal }: SweepOptions,
  read: (page: Page) => Promise<PageOf<Row>>,
): AsyncIterable<readonly Row[]> {
  let cursor: string | undefined;
  do {
    if (signal?.aborted) return;
    const { items, next } = await read({ limit: BATCH, cursor });
    if (items.length > 0) yield items;
    cursor = next ?? undefined;
    await turn();
  } while (cursor !== undefined);
}

function noteAged(
  tx: Tables,
  context: Context,
  action: string,
  details: Record<string, unknown>,
  subject = "retention",
): Promise<unknown> {
  return audit(tx, context, { actor: "server", action, subject, details });
}
