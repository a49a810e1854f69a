// How far a release is: which components are reused, built, at work, or failed and why.

import type { JobView, ReleaseView } from "@exclave/api";
import { unreachable } from "@exclave/core";
import { failureText, isFailed } from "./install-progress.ts";
import type { Verdict } from "./wait.ts";

export interface ReleaseSeen {
  readonly release: ReleaseView;
  readonly jobs: readonly JobView[];
}

export function judgeRelease({ release, jobs }: ReleaseSeen): Verdict {
  const lines = releaseLines({ release, jobs });
  switch (release.state) {
    case "ready":
      return { kind: "done", lines };
    case "failed": {
      const failed = jobs.find(isFailed);
      const because = release.because ?? (failed ? failureText(failed) : "it says no reason");
      const job = failed ? `; its log: exclave job logs ${failed.id}` : "";
      return {
        kind: "failed",
        lines,
        because: `release ${release.version} failed: ${because}${job}`,
      };
    }
    case "building": {
      const open = release.components.filter(
        ({ artifact, job }) => artifact === null && job !== null,
      );
      const queued = jobs.find(({ state }) => state === "queued" || state === "offered");
      const missing =
        open.length > 0
          ? `the build of ${open.map(({ name }) => name).join(", ")}${queued ? " (is the build agent connected? `exclave agent list`)" : ""}`
          : "the release to be written and signed";
      return { kind: "waiting", lines, missing };
    }
    default:
      return unreachable(release.state);
  }
}

function releaseLines({ release, jobs }: ReleaseSeen): string[] {
  const states = new Map(jobs.map((job) => [job.id, job.state]));
  return [
    `release ${release.version} of ${release.app}: ${release.state}`,
    ...release.components.map(({ name, type, artifact, reused, job }) => {
      const state = buildText({
        artifact,
        reused,
        isBuilding: release.state === "building",
        state: job === null ? undefined : states.get(job),
      });
      return `  ${name.padEnd(12)} ${type.padEnd(10)} ${state}`;
    }),
  ];
}

function buildText({
  artifact,
  reused,
  isBuilding,
  state,
}: {
  artifact: string | null;
  reused: boolean;
  isBuilding: boolean;
  state: JobView["state"] | undefined;
}): string {
  if (artifact !== null) return reused ? "reused" : "built";
  if (state !== undefined) return `build ${state}`;
  return isBuilding ? "not built yet" : "nothing to build";
}
