// Jobs of the setup agent about one install's sandbox: to set it up, to ask it how it is, to take it down.

import {
  type ArtifactRef,
  ComponentName,
  ComponentType,
  endLook,
  endSandboxJob,
  type JobFailure,
  lookSince,
  setupAgain,
  unreachable,
} from "@exclave/core";
import type { ServerContext } from "../context.ts";
import { type JobOrder, tryIssueJob } from "../job/issue-job.ts";
import { releaseIndex } from "../release/release-loop.ts";
import type { InstallRow, ReleaseRow, ReleaseSandbox } from "../store/rows.ts";
import type { Tables } from "../store/store.ts";
import type { InstallFacts } from "./gather-install.ts";

export interface SandboxJob {
  readonly kind: "setup" | "look" | "teardown";
  readonly because: string;
}

/** The install after the job was made, or after it turned out that it cannot be. */
export async function issueSandboxJob(
  tx: Tables,
  context: Pick<ServerContext, "now">,
  facts: InstallFacts,
  job: SandboxJob,
): Promise<InstallRow> {
  const { install, sandboxRelease } = facts;
  const source = sandboxRelease && sandboxSource(install, sandboxRelease);
  if (!source) return install;
  const issued = await tryIssueJob(tx, context, orderOf(install, source, job));
  if ("failure" in issued) return refused(context, facts, job.kind, issued.failure);
  switch (job.kind) {
    case "setup": {
      const { isAgain, sandboxLook } = setupAgain(install, context.now());
      return {
        ...install,
        sandboxState: "attempted",
        setUpRelease: source.release.id,
        setupWanted: isAgain ? (install.setupWanted ?? job.because) : null,
        sandboxLook,
      };
    }
    case "look":
      return { ...install, sandboxLook: lookSince(facts) };
    case "teardown":
      return install;
    default:
      return unreachable(job.kind);
  }
}

function refused(
  { now }: Pick<ServerContext, "now">,
  { install, sandboxRelease }: InstallFacts,
  kind: SandboxJob["kind"],
  failure: JobFailure,
): InstallRow {
  const at = now();
  if (kind === "look") return endLook(install, { at });
  const release = sandboxRelease?.id ?? null;
  return endSandboxJob(install, { kind, at, failure, reads: [], release });
}

function orderOf(
  install: InstallRow,
  source: SandboxSource,
  { kind, because }: SandboxJob,
): JobOrder {
  const { release, index, image } = source;
  return {
    audience: "setup",
    install,
    release: release.id,
    requestedBy: install.requestedBy,
    trace: install.trace,
    because,
    ...partsOf(kind, install, source),
    // By the release it was set up from: a server that was set back has forgotten later ones.
    ...(kind === "teardown" && { rollback: true }),
    reads: kind === "setup" ? [image, release.runner, index] : [image, index],
  };
}

function partsOf(
  kind: SandboxJob["kind"],
  install: InstallRow,
  { image, index, release, effects }: SandboxSource,
): Pick<JobOrder, "step" | "purpose"> {
  const step = {
    plugin: image,
    component: ComponentName.parse("sandbox"),
    type: ComponentType.parse(install.sandbox),
    config: install.sandboxConfig,
    parameters: {},
    materials: [],
    releases: [index],
  };
  switch (kind) {
    case "setup": {
      // Setup again: what the agent was may be lost or copied, so it becomes a new generation.
      const isAgain = install.setupWanted !== null || install.sandboxState === "present";
      const parameters = isAgain ? { rejoin: true } : {};
      const effect = effects.apply ?? "idempotent";
      const apply = { operation: "apply", artifact: release.runner, parameters, effect } as const;
      return { step: { ...step, ...apply }, purpose: { kind: "setup" } };
    }
    case "look": {
      const effect = effects.status ?? "idempotent";
      return {
        step: { ...step, operation: "status", effect },
        purpose: { kind: "sandbox-status" },
      };
    }
    case "teardown": {
      const effect = effects.destroy ?? "idempotent";
      return { step: { ...step, operation: "destroy", effect }, purpose: { kind: "teardown" } };
    }
    default:
      return unreachable(kind);
  }
}

/** Whose sandbox an install gets: one that a signed release lists, and no other. */
interface SandboxSource extends ReleaseSandbox {
  readonly release: ReleaseRow;
  readonly index: ArtifactRef;
}

function sandboxSource(
  { sandbox }: Pick<InstallRow, "sandbox">,
  release: ReleaseRow,
): SandboxSource | undefined {
  const found = release.sandboxes.find(({ type }) => type === sandbox);
  const index = releaseIndex(release);
  return found && index && { ...found, release, index };
}
