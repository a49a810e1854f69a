// Decides which jobs of an install are asked to stop, because nobody needs any more what they do.

import { artifactKey, type JobState } from "@exclave/core";
import type { ComponentRow, JobRow } from "../store/rows.ts";
import type { InstallFacts } from "./gather-install.ts";

/**
 * A sync for a release that is not wanted any more would hold a destroy up until its own deadline, and
 * a log that is followed until its reader goes. A sync that brings what the destroy itself needs goes
 * on, as does everything that changes something.
 */
export function planStops({ install, components, indexes, open }: InstallFacts): JobRow[] {
  if (install.mode !== "destroyed") return [];
  const needed = new Set(components.flatMap((component) => neededToDestroy(component, indexes)));
  return open.filter(
    ({ purpose, state }) =>
      !isAskedToStop(state) &&
      (purpose.kind === "request" ||
        (purpose.kind === "sync" &&
          !purpose.materials.some((ref) => needed.has(artifactKey(ref))))),
  );
}

export function isAskedToStop(state: JobState): boolean {
  return "cancelRequested" in state && state.cancelRequested;
}

function neededToDestroy(
  { deployed, attempted }: ComponentRow,
  indexes: InstallFacts["indexes"],
): string[] {
  return [deployed, attempted].flatMap((trace) => {
    const refs = trace ? [trace.plugin, trace.artifact, indexes.get(trace.release)] : [];
    return refs.flatMap((ref) => (ref ? [artifactKey(ref)] : []));
  });
}
