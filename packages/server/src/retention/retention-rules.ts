// What the server keeps, and for how long. Decided on rows alone: what a kept row names is needed, whatever its age.

import type { ArtifactRef, Instant } from "@exclave/core";
import { isSettled } from "@exclave/core";
import { materialsOf } from "../release/plan-release.ts";
import { releaseIndex } from "../release/release-loop.ts";
import type {
  BuildRow,
  ChannelRow,
  ComponentRow,
  ImageRow,
  InstallRow,
  JobRow,
  JoinRow,
  ReleaseRow,
} from "../store/rows.ts";

export interface RetentionSettings {
  /** How long a job that has ended is kept, with its log. */
  readonly jobsMs: number;
  /** How long a release is kept that nothing follows, has or may go back to. */
  readonly releasesMs: number;
}

const DAY_MS = 24 * 60 * 60_000;

export const RETENTION: RetentionSettings = { jobsMs: 90 * DAY_MS, releasesMs: 365 * DAY_MS };

/** The newest releases of an app stay, however old they are. */
export const RELEASES_KEPT_MIN = 20;

/** A join string that can be used no more says nothing that the record does not say. */
const JOINS_MS = 7 * DAY_MS;

/** Jobs of a release that is still being built are what it is built from. */
export function isJobDue(job: JobRow, before: number, building: ReadonlySet<string>): boolean {
  const isBuilding = job.release !== null && building.has(job.release);
  return isSettled(job.state) && !isBuilding && (job.endedAt ?? job.createdAt) < before;
}

export function isJoinDue({ expiresAt }: JoinRow, now: Instant): boolean {
  return expiresAt < now - JOINS_MS;
}

/** Asked for by anybody, or what an agent says it has: it may need a release that nothing needed before. */
export function makesNeeded({ action }: { readonly action: string }): boolean {
  return /^(install\.|channel\.|release\.(created|ready)|agent\.inventory|component\.)/.test(
    action,
  );
}

/** Of one app, newest first: those that may go if nothing needs them. */
export function releasesDue(releases: readonly ReleaseRow[], before: number): ReleaseRow[] {
  return releases
    .slice(RELEASES_KEPT_MIN)
    .filter(({ state, createdAt }) => state !== "building" && createdAt < before);
}

/** Releases that an install has, wants, was set up from, or may have begun to deploy. */
export function releasesOfInstall(
  install: InstallRow,
  components: readonly ComponentRow[],
): string[] {
  const { pinnedRelease, setUpRelease, releaseFloor, unknownRelease } = install;
  return [
    pinnedRelease,
    setUpRelease,
    releaseFloor?.release,
    unknownRelease?.release,
    ...components.flatMap(({ deployed, attempted }) => [deployed?.release, attempted?.release]),
  ].filter((release) => release !== null && release !== undefined);
}

export function releasesOfChannels(channels: readonly ChannelRow[]): string[] {
  return channels.flatMap(({ release }) => release ?? []);
}

/** Everything of a release that lies in the vendor's registry. */
export function artifactsOf(release: ReleaseRow): ArtifactRef[] {
  const index = releaseIndex(release);
  return [
    ...materialsOf(release),
    ...release.plugins.flatMap(({ plugin }) => plugin ?? []),
    ...release.sandboxes.map(({ image }) => image),
    ...(index ? [index] : []),
  ];
}

/** A build that no kept release is made of is made again if it is ever wanted. */
export function isBuildDue(
  { artifact, at }: BuildRow,
  before: number,
  kept: ReadonlySet<string>,
): boolean {
  return at < before && !kept.has(artifact.digest);
}

export interface Named {
  readonly releases: readonly ReleaseRow[];
  readonly builds: readonly BuildRow[];
  readonly images: readonly ImageRow[];
  readonly installs: readonly InstallRow[];
  readonly open: readonly JobRow[];
}

/** By digest, what some row names: it stays in the vendor's registry. */
export function digestsNamed({
  releases,
  builds,
  images,
  installs,
  open,
}: Partial<Named>): string[] {
  return [
    ...(releases ?? []).flatMap(artifactsOf),
    ...(builds ?? []).map(({ artifact }) => artifact),
    ...(images ?? []),
    ...(installs ?? []).flatMap(({ runner }) => runner ?? []),
    ...(open ?? []).flatMap(({ reads }) => reads),
  ].map(({ digest }) => digest);
}
