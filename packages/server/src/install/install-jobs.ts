// The steps of an install's plan, made into jobs of its own agent.

import {
  type ArtifactRef,
  artifactKey,
  beginComponentJob,
  type ComponentStep,
  type Deployed,
  deployedBy,
  endComponentJob,
  endSync,
  floorAfter,
  manifestStepOf,
  purposeOf,
  type Step,
  type SyncStep,
} from "@exclave/core";
import type { ServerContext } from "../context.ts";
import { type JobOrder, tryIssueJob } from "../job/issue-job.ts";
import { materialsOf } from "../release/plan-release.ts";
import { releaseIndex } from "../release/release-loop.ts";
import type { ComponentRow, InstallRow, ReleaseRow } from "../store/rows.ts";
import { componentKey, type Tables } from "../store/store.ts";
import { emptyComponent } from "./empty-component.ts";
import type { InstallFacts } from "./gather-install.ts";

/** The install after its steps were made into jobs. */
export async function issueSteps(
  tx: Tables,
  context: Pick<ServerContext, "now">,
  facts: InstallFacts,
  steps: readonly Step[],
): Promise<InstallRow> {
  const { release } = facts;
  let { install } = facts;
  for (const step of steps) {
    if (step.kind === "sync") install = await issueSync(tx, context, { ...facts, install }, step);
    else await issueComponentJob(tx, context, facts, step);
  }
  if (!release) return install;
  return { ...install, releaseFloor: floorAfter(install.releaseFloor, release, steps) };
}

async function issueSync(
  tx: Tables,
  context: Pick<ServerContext, "now">,
  facts: InstallFacts,
  step: SyncStep,
): Promise<InstallRow> {
  const { install } = facts;
  const order = { ...common(install, step), ...syncOrder(facts, step) };
  const issued = await tryIssueJob(tx, context, order);
  if (!("failure" in issued)) return install;
  const { key, materials } = step;
  return endSync(install, { key, materials, at: context.now(), failure: issued.failure });
}

async function issueComponentJob(
  tx: Tables,
  context: Pick<ServerContext, "now">,
  facts: InstallFacts,
  step: ComponentStep,
): Promise<void> {
  const { install, release, app } = facts;
  const row =
    (await tx.components.get(componentKey(install.id, step.component))) ??
    emptyComponent(install.id, step.component, step.type);
  const there = row.attempted ?? row.deployed;
  const deployed = deployedBy(step, { there, release, app, inputs: install.inputs });
  const purpose = purposeOf(step, deployed);
  const order = { ...common(install, step), ...componentOrder(facts, step, deployed), purpose };
  const issued = await tryIssueJob(tx, context, order);
  const at = context.now();
  if ("failure" in issued) {
    const { failure } = issued;
    const after = endComponentJob<Deployed, ComponentRow>(row, { purpose, at, failure });
    if (after) await tx.components.put(after);
  } else if (purpose.kind === "apply") {
    await tx.components.put(beginComponentJob(row, purpose, { at, repair: step.repair }));
  }
}

function common(install: InstallRow, { because }: Step) {
  const { id: audience, requestedBy, trace } = install;
  return { audience, install, because, requestedBy, trace };
}

function componentOrder(
  { install, indexes, releases, app }: InstallFacts,
  step: ComponentStep,
  deployed: Deployed,
): Omit<JobOrder, "purpose" | "audience" | "because" | "requestedBy"> {
  const { release, inputs, generatedSecrets, statusEveryMs } = deployed;
  const wanted = app?.components.find(({ name }) => name === step.component);
  return {
    ...releaseOrder(install, release, [releases.get(release)]),
    // By the release it was deployed from: a server that was set back has forgotten later ones.
    ...((step.kind === "destroy" || step.isAsIs) && { rollback: true }),
    step: manifestStepOf(step, deployed, indexes.get(release)),
    limits: wanted?.limits,
    network: wanted?.network,
    inputs,
    generatedSecrets,
    ...(step.kind === "apply" && statusEveryMs !== undefined ? { statusEveryMs } : {}),
  };
}

/** Which release a job is of; said to be a rollback when the install has seen a newer one. */
function releaseOrder(
  install: InstallRow,
  release: string,
  of: readonly (ReleaseRow | undefined)[],
): Pick<JobOrder, "release" | "rollback"> {
  const floor = install.releaseFloor?.number ?? 0;
  return { release, rollback: of.some((row) => row !== undefined && row.number < floor) };
}

function syncOrder(
  facts: InstallFacts,
  { materials, runner, key }: SyncStep,
): Pick<JobOrder, "step" | "purpose" | "reads" | "release" | "rollback"> {
  const { release } = facts;
  const refs = materials.map(({ repository, digest }) => ({ repository, digest }));
  const named = releasesListing(refs, facts);
  const indexes = named.flatMap((row) => releaseIndex(row) ?? []);
  const [first] = named;
  // Where the install may have the same blobs from before.
  const homes = release ? materialsOf(release).map(({ repository }) => repository) : [];
  return {
    step: {
      operation: "sync",
      plugin: runner,
      config: {},
      parameters: { mountFrom: [...new Set(homes)] },
      effect: "idempotent",
      materials: [...materials],
      releases: indexes,
    },
    ...(first ? releaseOrder(facts.install, first.id, named) : {}),
    purpose: { kind: "sync", key, materials: refs },
    // The statements lie beside the indexes, and are read before anything else.
    reads: [...new Map([...refs, ...indexes].map((ref) => [artifactKey(ref), ref])).values()],
  };
}

/** The releases whose statements list what a sync brings: the wanted one first, others as needed. */
function releasesListing(
  refs: readonly ArtifactRef[],
  { release, releases }: InstallFacts,
): ReleaseRow[] {
  const others = [...releases.values()].filter(({ id }) => id !== release?.id);
  const named: ReleaseRow[] = [];
  let left = refs.map(artifactKey);
  for (const row of release ? [release, ...others] : others) {
    const index = releaseIndex(row);
    const listed = new Set([...materialsOf(row), ...(index ? [index] : [])].map(artifactKey));
    if (!left.some((ref) => listed.has(ref))) continue;
    named.push(row);
    left = left.filter((ref) => !listed.has(ref));
  }
  return named;
}
