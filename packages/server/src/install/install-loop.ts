// Carries an install towards what is wanted: gather, decide, commit. The commit is refused when the
// install changed since it was read; the loop is woken by that change anyway.

import {
  type AppConfig,
  type ArtifactRef,
  artifactKey,
  asFailure,
  beginComponentJob,
  ComponentName,
  type ComponentPurpose,
  type ComponentStep,
  ComponentType,
  type InstallId,
  type Instant,
  type ManifestStep,
  type Step,
  type SyncStep,
  unreachable,
} from "@exclave/core";
import { audit, type ServerContext } from "../context.ts";
import { abandonJob } from "../job/abandon-job.ts";
import { cancelJob } from "../job/cancel-job.ts";
import { issueJob, type JobOrder } from "../job/issue-job.ts";
import { materialsOf } from "../release/plan-release.ts";
import { releaseIndex } from "../release/release-loop.ts";
import { effectsOf } from "../release/sign-release.ts";
import type { Deployed, InstallRow, JobRow, ReleaseRow } from "../store/rows.ts";
import { componentKey, type Tables } from "../store/store.ts";
import { emptyComponent } from "./empty-component.ts";
import { gatherInstall, type InstallFacts, STATUS_EVERY_MS } from "./gather-install.ts";
import { inputValues } from "./inputs.ts";
import { decideInstall } from "./install-decision.ts";
import { lookSince, nextLookAt, type SandboxSource, sandboxSource } from "./plan-sandbox.ts";
import { planStops } from "./plan-stops.ts";
import { issueWatch, planWatches } from "./watch-components.ts";

const STOP_GRACE_MS = 10_000;
const BY = "server";

/** One look at one install. Returns when waiting alone would change something. */
export async function reconcileInstall(
  context: ServerContext,
  id: InstallId,
): Promise<number | undefined> {
  const { store, now } = context;
  const install = await store.read.installs.get(id);
  if (!install) return undefined;
  const facts = await gatherInstall(context, install);
  const decision = decideInstall(facts, now());

  const { sandbox, steps } = decision;
  context.followers.expect(facts.open);
  for (const job of planStops(facts)) await stop(context, facts, job);
  if (sandbox.kind === "setup") {
    const { because } = sandbox;
    await commit(context, facts, (tx) => setUp(tx, context, facts, because));
  }
  if (sandbox.kind === "look") {
    const { because } = sandbox;
    await commit(context, facts, (tx) => lookAtSandbox(tx, context, facts, because));
  }
  if (sandbox.kind === "teardown")
    await commit(context, facts, (tx) => tearDown(tx, context, facts));
  if (sandbox.kind === "gone") await commit(context, facts, (tx) => seal(tx, context, facts));
  const watches = planWatches(facts, now());
  if (steps.length === 0 && watches.due.length > 0) {
    await commit(context, facts, async (tx) => {
      for (const row of watches.due) await issueWatch(tx, context, facts, row);
      return facts.install;
    });
    context.wake.outbox(id);
  }
  if (steps.length > 0) {
    await commit(context, facts, async (tx) => {
      for (const step of steps) await issueStep(tx, context, facts, step);
      return withFloor(facts, steps);
    });
  }
  if (["setup", "look", "teardown"].includes(sandbox.kind)) context.wake.outbox("setup");
  if (steps.length > 0) context.wake.outbox(id);
  const untils = [
    ...decision.holds.flatMap(({ until }) => until ?? []),
    decision.wakeAt ?? [],
    // One that is due and waits for something, such as the setup agent, is woken by that.
    [nextLookAt(facts) ?? []].flat().filter((at) => at > now()),
    watches.until ?? [],
  ].flat();
  return untils.length > 0 ? Math.min(...untils) : undefined;
}

async function commit(
  { store, live, wake }: ServerContext,
  { install }: InstallFacts,
  work: (tx: Tables) => Promise<InstallRow | undefined>,
): Promise<void> {
  const { id, name } = install;
  const isDone = await store.transaction(async (tx) => {
    const current = await tx.installs.get(id);
    if (current?.revision !== install.revision) return false;
    const changed = await work(tx);
    if (changed) await tx.installs.put({ ...changed, revision: install.revision + 1 });
    return true;
  });
  // Whoever changed it has woken the loop, or will; once more does no harm.
  if (!isDone) return wake.install(id);
  const message = `${name}: the next steps are under way`;
  live.say({ kind: "install", subject: id, install, component: null, message });
}

/** One that has ended in the meantime needs no asking. */
async function stop(
  context: ServerContext,
  { install }: InstallFacts,
  { id }: JobRow,
): Promise<void> {
  try {
    await cancelJob(context, { id, graceMs: STOP_GRACE_MS, by: install.requestedBy });
  } catch (reason) {
    if (asFailure(reason).code !== "conflict") throw reason;
  }
}

/** Setup is a job of the setup agent: it makes the sandbox and starts the install's agent in it. */
async function setUp(
  tx: Tables,
  context: ServerContext,
  { install, sandboxRelease }: InstallFacts,
  because: string,
): Promise<InstallRow> {
  const source = sandboxRelease && sandboxSource(install, sandboxRelease);
  if (!source) return install;
  const { release, index, image } = source;
  await issueJob(tx, context, {
    ...sandboxOrder(install, release),
    step: {
      ...sandboxStep(install, source),
      operation: "apply",
      artifact: release.runner,
      // Setup again: what the agent was may be lost or copied, so it becomes a new generation.
      parameters: install.setupWanted === null ? {} : { rejoin: true },
      effect: source.effects.apply ?? "idempotent",
    },
    purpose: { kind: "setup" },
    reads: [image, release.runner, index],
    because,
  });
  return { ...install, sandboxState: "attempted", setUpRelease: release.id };
}

/** Asks the sandbox itself how it is, by the setup agent: the install's own is gone. */
async function lookAtSandbox(
  tx: Tables,
  context: ServerContext,
  facts: InstallFacts,
  because: string,
): Promise<InstallRow> {
  const { install, sandboxRelease } = facts;
  const source = sandboxRelease && sandboxSource(install, sandboxRelease);
  if (!source) return install;
  const { release, index, image } = source;
  await issueJob(tx, context, {
    ...sandboxOrder(install, release),
    step: {
      ...sandboxStep(install, source),
      operation: "status",
      effect: source.effects.status ?? "idempotent",
    },
    purpose: { kind: "sandbox-status" },
    reads: [image, index],
    because,
  });
  return { ...install, sandboxLook: lookSince(facts) };
}

async function tearDown(
  tx: Tables,
  context: ServerContext,
  { install, sandboxRelease }: InstallFacts,
): Promise<InstallRow> {
  const source = sandboxRelease && sandboxSource(install, sandboxRelease);
  if (!source) return install;
  const { release, index, image } = source;
  await issueJob(tx, context, {
    ...sandboxOrder(install, release),
    step: {
      ...sandboxStep(install, source),
      operation: "destroy",
      effect: source.effects.destroy ?? "idempotent",
    },
    purpose: { kind: "teardown" },
    reads: [image, index],
    because: `install ${install.name} is to be destroyed, and its components are gone`,
  });
  return install;
}

function sandboxOrder(install: InstallRow, release: ReleaseRow) {
  return {
    audience: "setup" as const,
    install,
    release: release.id,
    requestedBy: install.requestedBy,
  };
}

function sandboxStep(
  install: InstallRow,
  { image, index }: SandboxSource,
): Omit<ManifestStep, "operation" | "effect"> {
  return {
    plugin: image,
    component: ComponentName.parse("sandbox"),
    type: ComponentType.parse(install.sandbox),
    config: install.sandboxConfig,
    parameters: {},
    materials: [],
    releases: [index],
  };
}

/** Everything is gone: the agent may not come back, and what was learnt of it is dropped. */
async function seal(
  tx: Tables,
  context: ServerContext,
  { install, agent, open }: InstallFacts,
): Promise<InstallRow | undefined> {
  const isRevoked = agent === undefined || agent.revokedAt !== null;
  if (install.sandboxState === "destroyed" && isRevoked) return undefined;
  // What somebody asked for ended with the sandbox, and its agent is not there to say so.
  for (const job of open) await abandonJob(tx, context, job, "its install was destroyed");
  if (agent && !isRevoked) {
    await tx.agents.put({ ...agent, revokedAt: context.now() });
    await tx.outbox.clear(install.id);
    await audit(tx, context, {
      actor: BY,
      action: "agent.revoked",
      subject: install.id,
      details: { name: install.name, agent: agent.id, because: "its install was destroyed" },
    });
  }
  return { ...install, sandboxState: "destroyed", synced: [], runner: null };
}

async function issueStep(
  tx: Tables,
  context: ServerContext,
  facts: InstallFacts,
  step: Step,
): Promise<void> {
  const { install } = facts;
  const common = {
    audience: install.id,
    install,
    because: step.because,
    requestedBy: install.requestedBy,
  };
  if (step.kind === "sync") {
    await issueJob(tx, context, { ...common, ...syncOrder(facts, step) });
    return;
  }
  const order = await componentOrder(tx, facts, step, context.now());
  await issueJob(tx, context, { ...common, ...order });
}

/** Which release a job is of; said to be a rollback when the install has seen a newer one. */
function releaseOrder(
  { install }: InstallFacts,
  release: string,
  of: readonly (ReleaseRow | undefined)[],
): Pick<JobOrder, "release" | "rollback"> {
  const floor = install.releaseFloor?.number ?? 0;
  return { release, rollback: of.some((row) => row !== undefined && row.number < floor) };
}

/** The highest release it was directed to: from there on everything older is a rollback. */
function withFloor({ install, release }: InstallFacts, steps: readonly Step[]): InstallRow {
  const isDirected = steps.some(({ kind }) => kind !== "destroy");
  if (!release || !isDirected) return install;
  const { id, number, rollbackNumberMin } = release;
  if (number <= (install.releaseFloor?.number ?? 0)) return install;
  const numberMin = rollbackNumberMin ?? number;
  return { ...install, releaseFloor: { release: id, number, numberMin } };
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
    ...(first ? releaseOrder(facts, first.id, named) : {}),
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

async function componentOrder(tx: Tables, facts: InstallFacts, step: ComponentStep, at: Instant) {
  const { install } = facts;
  const row =
    (await tx.components.get(componentKey(install.id, step.component))) ??
    emptyComponent(install.id, step.component, step.type);
  const deployed = deployedBy(step, facts, row.attempted ?? row.deployed);
  const purpose = purposeOf(step, deployed);
  if (purpose.kind === "apply") {
    const { repair } = step;
    await tx.components.put(beginComponentJob(row, purpose, { at, repair }));
  }
  const index = facts.indexes.get(deployed.release);
  const { statusEveryMs } = deployed;
  const wanted = facts.app?.components.find(({ name }) => name === step.component);
  return {
    ...releaseOrder(facts, deployed.release, [facts.releases.get(deployed.release)]),
    step: {
      operation: step.kind,
      plugin: step.plugin,
      component: step.component,
      type: step.type,
      ...(step.artifact ? { artifact: step.artifact } : {}),
      config: { ...step.config },
      parameters: step.plan ? { plan: step.plan } : {},
      effect: deployed.effects[step.kind] ?? ("idempotent" as const),
      materials: [],
      releases: index ? [index] : [],
    },
    purpose,
    limits: wanted?.limits,
    inputs: deployed.inputs,
    generatedSecrets: deployed.generatedSecrets,
    ...(step.kind === "apply" && statusEveryMs !== undefined ? { statusEveryMs } : {}),
  };
}

function purposeOf(step: ComponentStep, deployed: Deployed): ComponentPurpose<Deployed> {
  switch (step.kind) {
    case "apply":
      return { kind: "apply", deployed };
    case "plan":
      return { kind: "plan", deployKey: step.deployKey, type: step.type };
    case "destroy":
      return { kind: "destroy" };
    default:
      return unreachable(step.kind);
  }
}

/** What an apply of this step leaves; for a destroy, what is there. */
function deployedBy(
  step: ComponentStep,
  { install, release, app }: InstallFacts,
  there: Deployed | null,
): Deployed {
  if (step.kind === "destroy" && there) return there;
  const descriptor = release?.plugins.find(({ type }) => type === step.type)?.descriptor;
  return {
    deployKey: step.deployKey,
    type: step.type,
    plugin: step.plugin,
    ...(step.artifact ? { artifact: step.artifact } : {}),
    config: { ...step.config },
    inputs: app ? inputValues(app, install.inputs) : {},
    generatedSecrets: (app?.secrets ?? []).flatMap(({ name, generate }) =>
      generate ? [{ name, ...generate }] : [],
    ),
    dependsOn: [...step.dependsOn],
    effects: descriptor ? effectsOf(descriptor) : {},
    release: release?.id ?? "",
    ...(descriptor?.operations.status ? { statusEveryMs: statusEveryMs(step, app) } : {}),
  };
}

function statusEveryMs({ component }: ComponentStep, app: AppConfig | undefined): number {
  const seconds = app?.components.find(({ name }) => name === component)?.statusEverySeconds;
  return seconds === undefined ? STATUS_EVERY_MS : seconds * 1_000;
}
