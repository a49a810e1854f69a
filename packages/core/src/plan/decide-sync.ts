// What has to be brought into the install's registry before anything can run from there.

import { digestOf } from "../encoding/sha256.ts";
import type { ArtifactRef } from "../manifest/manifest.ts";
import { isTriedInVain } from "./decide-destroy.ts";
import { isMissed } from "./decide-regain.ts";
import { atTime, byItself, byNewerRelease } from "./hold.ts";
import { artifactKey } from "./install-state.ts";
import { type PlanContext, traceOf } from "./plan-context.ts";
import type { Decision } from "./plan-install.ts";
import { askForRetry, decideRetry } from "./retry.ts";

export function decideSync(context: PlanContext): Decision | undefined {
  const materials = missingMaterials(context);
  if (materials.length === 0) return undefined;

  const { activeSync, syncFailure } = context.seen;
  if (activeSync) {
    const because = `sync job ${activeSync.job} is ${activeSync.state}`;
    return { hold: { because, ...byItself("the sync ends") } };
  }

  const key = digestOf(materials.map(artifactKey).toSorted());
  if (syncFailure && (syncFailure.key ?? key) === key) {
    const { code, message } = syncFailure;
    // A key of the install's registry that was renewed while the sync ran is refused with 401.
    const retry = decideRetry(syncFailure, context.now, { renewsCredentials: true });
    if (retry.kind === "later") {
      const because = `the sync failed (${code}): ${message}`;
      return { hold: { because, ...atTime(retry.until) } };
    }
    if (retry.kind === "not-by-itself" && code === "downgrade") {
      const because = `the sync failed (${code}): ${message}`;
      return { hold: { because, ...byNewerRelease(context) } };
    }
    if (retry.kind === "not-by-itself") {
      const because = `the sync failed (${code}): ${message}; ${retry.because}`;
      const isLeaving = context.mode === "destroyed";
      const end = askForRetry(context, isLeaving ? undefined : "another release is wanted");
      return { hold: { because, ...end } };
    }
  }

  const because = `${materials.map(({ name }) => name).join(", ")}: not in the install's registry yet`;
  return { step: { kind: "sync", materials, runner: syncRunner(context), key, because } };
}

/** A newer runner has to be brought by the one that is there. */
function syncRunner({ runner, seen, isSynced }: PlanContext): ArtifactRef {
  return isSynced(runner) ? runner : (seen.runner ?? runner);
}

type Material = ArtifactRef & { readonly name: string };

function missingMaterials(context: PlanContext): Material[] {
  const materials = new Map<string, Material>();
  const want = (name: string, ref: ArtifactRef | undefined) => {
    if (!ref || context.isSynced(ref) || materials.has(artifactKey(ref))) return;
    materials.set(artifactKey(ref), { name, repository: ref.repository, digest: ref.digest });
  };

  if (context.wanted.length > 0) want("runner", context.runner);
  for (const { name, type, artifact, plugin } of context.wanted) {
    want(`plugin ${type}`, plugin);
    want(name, artifact);
  }
  // What takes something down is synced again only where a destroy met that it is missing.
  const leaving = context.leftovers
    .filter((name) => context.mayDestroy(name))
    .filter((name) => isTriedInVain(context.there(name)) || isMissed(name, context))
    .map((name) => ({ name, trace: traceOf(context.there(name)) }));
  for (const { name, trace } of leaving) {
    want(`plugin ${trace?.type}`, trace?.plugin);
    want(name, trace?.artifact);
  }
  // Last, because a release is made of all that went before.
  if (context.wanted.length > 0) want("release", context.index);
  // What is still deployed from an earlier release is looked at, and taken down, by that one's statement.
  for (const { name } of context.wanted) want("release", context.there(name).deployed?.index);
  for (const { trace } of leaving) want("release", trace?.index);
  return [...materials.values()];
}
