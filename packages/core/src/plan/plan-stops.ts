// Decides which jobs of an install are asked to stop, because nobody needs any more what they do.

import { isAskedToStop, type JobState } from "../job/job-state.ts";
import type { ArtifactRef } from "../manifest/manifest.ts";
import { artifactKey } from "./install-state.ts";

export interface StoppableJob {
  readonly purpose: {
    readonly kind: string;
    /** What a sync brings. */
    readonly materials?: readonly ArtifactRef[];
  };
  readonly state: JobState;
}

export interface StopFacts<Job> {
  readonly install: { readonly mode: "present" | "destroyed" };
  readonly components: readonly {
    readonly deployed: ReleasedTrace | null;
    readonly attempted: ReleasedTrace | null;
  }[];
  /** Signed indexes, by release. */
  readonly indexes: ReadonlyMap<string, ArtifactRef>;
  readonly open: readonly Job[];
}

interface ReleasedTrace {
  readonly plugin: ArtifactRef;
  readonly artifact?: ArtifactRef | undefined;
  readonly release: string;
}

/**
 * A sync for a release that is not wanted any more would hold a destroy up until its own deadline, and
 * a log that is followed until its reader goes. A sync that brings what the destroy itself needs goes
 * on, as does everything that changes something.
 */
export function planStops<Job extends StoppableJob>(facts: StopFacts<Job>): Job[] {
  const { install, components, indexes, open } = facts;
  if (install.mode !== "destroyed") return [];
  const needed = new Set(components.flatMap((component) => neededToDestroy(component, indexes)));
  return open.filter(
    ({ purpose, state }) =>
      !isAskedToStop(state) &&
      (purpose.kind === "request" ||
        (purpose.kind === "sync" &&
          !purpose.materials?.some((ref) => needed.has(artifactKey(ref))))),
  );
}

function neededToDestroy(
  { deployed, attempted }: StopFacts<unknown>["components"][number],
  indexes: StopFacts<unknown>["indexes"],
): string[] {
  return [deployed, attempted].flatMap((trace) => {
    const refs = trace ? [trace.plugin, trace.artifact, indexes.get(trace.release)] : [];
    return refs.flatMap((ref) => (ref ? [artifactKey(ref)] : []));
  });
}
