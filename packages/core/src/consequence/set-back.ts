// What a server that was set back (restored from an older backup) learns from what an agent says it
// applied last: which records are stale, where the channel has been, and what is forgotten for good.

import type { Instant } from "../ids.ts";
import type { Effect } from "../manifest/manifest.ts";

export interface AppliedFact {
  readonly component: string;
  readonly type: string;
  readonly release: string;
  readonly effect: Effect;
}

export interface CatchUpFacts {
  readonly applied: readonly AppliedFact[];
  /** The release each component is from, or may be from, by the server's own record. */
  readonly recorded: ReadonlyMap<string, readonly string[]>;
  /** Those of the releases in question that the server knows. */
  readonly releases: ReadonlyMap<string, KnownRelease>;
  /** What the channel the install follows points at; absent when the install follows none. */
  readonly channel?: { readonly release: string | null; readonly createdAt: Instant | null };
}

export interface KnownRelease {
  readonly createdAt: Instant;
  readonly isReady: boolean;
}

export interface CatchUp {
  /** Applied after what the server remembers: to be applied again, so that its record is true. */
  readonly stale: readonly AppliedFact[];
  /** The channel has pointed at this before. */
  readonly channelTo?: string;
  /** Of a release nobody here knows. */
  readonly unknown?: AppliedFact;
}

export function catchUp({ applied, recorded, releases, channel }: CatchUpFacts): CatchUp {
  const stale = applied.filter(
    ({ component, release }) => !recorded.get(component)?.includes(release),
  );
  const unknown = stale.find(({ release }) => !releases.has(release));
  const newest = stale
    .flatMap(({ release }) => {
      const known = releases.get(release);
      return known?.isReady ? [{ release, createdAt: known.createdAt }] : [];
    })
    .toSorted((one, other) => other.createdAt - one.createdAt)[0];
  const isBehind = channel && newest && newest.createdAt > (channel.createdAt ?? -1);
  return {
    stale,
    ...(isBehind ? { channelTo: newest.release } : {}),
    ...(unknown ? { unknown } : {}),
  };
}

export interface QueuedJob {
  readonly queuedAt: Instant;
  /** When its agent last came to a server; absent when it never did, as far as is known. */
  readonly agentSeenAt?: Instant | undefined;
  readonly serverStartedAt: Instant;
}

/**
 * Whether an agent may know a job that is queued here. A server that was started since may have been set back,
 * and the state that is lost may have offered it. Only its agent can tell, once it has come back.
 */
export function mayBeHeard({ queuedAt, agentSeenAt, serverStartedAt }: QueuedJob): boolean {
  const isBack = agentSeenAt !== undefined && agentSeenAt >= serverStartedAt;
  return queuedAt < serverStartedAt && !isBack;
}
