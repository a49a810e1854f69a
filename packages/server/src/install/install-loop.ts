// Carries an install towards what is wanted: gather, decide, commit. The commit is refused when the
// install changed since it was read; the loop is woken by that change anyway.

import {
  artifactKey,
  asFailure,
  ComponentName,
  type ComponentStep,
  ComponentType,
  type ManifestStep,
  type Step,
  type SyncStep,
} from "@exclave/core";
import { cancelJob } from "../cancel-job.ts";
import { audit, type ServerContext } from "../context.ts";
import { issueJob, type JobOrder } from "../issue-job.ts";
import { createJoin } from "../joins.ts";
import { materialsOf } from "../release/plan-release.ts";
import type { Deployed, InstallRow, JobRow } from "../store/rows.ts";
import { componentKey, type Tables } from "../store/store.ts";
import { emptyComponent } from "./empty-component.ts";
import { gatherInstall, type InstallFacts } from "./gather-install.ts";
import { inputValues } from "./inputs.ts";
import { decideInstall } from "./install-decision.ts";
import { planStops } from "./plan-stops.ts";

export const STATUS_EVERY_MS = 30_000;
const STOP_GRACE_MS = 10_000;
const BY = "server";

/** One look at one install. Returns when waiting alone would change something. */
export async function lookAtInstall(
  context: ServerContext,
  name: string,
): Promise<number | undefined> {
  const { store, now } = context;
  const install = await store.read.installs.get(name);
  if (!install) return undefined;
  const facts = await gatherInstall(context, install);
  const decision = decideInstall(facts, now());

  const { sandbox, steps } = decision;
  for (const job of planStops(facts)) await stop(context, facts, job);
  if (sandbox.kind === "setup") await commit(context, facts, (tx) => setUp(tx, context, facts));
  if (sandbox.kind === "teardown")
    await commit(context, facts, (tx) => tearDown(tx, context, facts));
  if (sandbox.kind === "gone") await commit(context, facts, (tx) => seal(tx, context, facts));
  if (steps.length > 0) {
    await commit(context, facts, async (tx) => {
      for (const step of steps) await issueStep(tx, context, facts, step);
      return facts.install;
    });
  }
  if (sandbox.kind === "setup" || sandbox.kind === "teardown") context.wake.outbox("setup");
  if (steps.length > 0) context.wake.outbox(name);
  const untils = decision.holds.flatMap(({ until }) => until ?? []);
  return untils.length > 0 ? Math.min(...untils) : undefined;
}

async function commit(
  { store, live, wake }: ServerContext,
  { install }: InstallFacts,
  work: (tx: Tables) => Promise<InstallRow | undefined>,
): Promise<void> {
  const { name } = install;
  const isDone = await store.transaction(async (tx) => {
    const current = await tx.installs.get(name);
    if (current?.revision !== install.revision) return false;
    const changed = await work(tx);
    if (changed) await tx.installs.put({ ...changed, revision: install.revision + 1 });
    return true;
  });
  // Whoever changed it has woken the loop, or will; once more does no harm.
  if (!isDone) return wake.install(name);
  const message = `${name}: the next steps are under way`;
  live.say({ kind: "install", subject: name, install: name, component: null, message });
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
  { install, sandboxImage, runnerImage }: InstallFacts,
): Promise<InstallRow> {
  if (!sandboxImage || !runnerImage) return install;
  const { name } = install;
  const { joinString } = await createJoin(tx, context, { kind: "install", audience: name, by: BY });
  const runner = { repository: runnerImage.repository, digest: runnerImage.digest };
  const config = { directory: install.directory, install: name, serverUrl: context.publicUrl() };
  await issueJob(tx, context, {
    ...sandboxOrder(install),
    step: {
      ...sandboxStep(install, sandboxImage, config),
      operation: "apply",
      artifact: runner,
      parameters: { joinString },
    },
    about: { kind: "setup" },
    reads: [{ repository: sandboxImage.repository, digest: sandboxImage.digest }, runner],
    because: `install ${name} has no sandbox yet`,
  });
  return { ...install, sandboxState: "attempted" };
}

async function tearDown(
  tx: Tables,
  context: ServerContext,
  { install, sandboxImage }: InstallFacts,
): Promise<InstallRow> {
  if (!sandboxImage) return install;
  const config = {
    directory: install.directory,
    install: install.name,
    serverUrl: context.publicUrl(),
  };
  await issueJob(tx, context, {
    ...sandboxOrder(install),
    step: { ...sandboxStep(install, sandboxImage, config), operation: "destroy" },
    about: { kind: "teardown" },
    reads: [{ repository: sandboxImage.repository, digest: sandboxImage.digest }],
    because: `install ${install.name} is to be destroyed, and its components are gone`,
  });
  return install;
}

type SandboxImage = NonNullable<InstallFacts["sandboxImage"]>;

function sandboxOrder(install: InstallRow) {
  return {
    audience: "setup",
    install: install.name,
    app: install.app,
    requestedBy: install.requestedBy,
  };
}

function sandboxStep(
  install: InstallRow,
  { repository, digest }: SandboxImage,
  config: Record<string, unknown>,
): Omit<ManifestStep, "operation"> {
  return {
    plugin: { repository, digest },
    component: ComponentName.parse("sandbox"),
    type: ComponentType.parse(install.sandbox),
    config,
    parameters: {},
    effect: "idempotent",
    materials: [],
  };
}

/** Everything is gone: the agent may not come back, and what was learnt of it is dropped. */
async function seal(
  tx: Tables,
  context: ServerContext,
  { install, agent }: InstallFacts,
): Promise<InstallRow | undefined> {
  const isRevoked = agent === undefined || agent.revokedAt !== null;
  if (install.sandboxState === "destroyed" && isRevoked) return undefined;
  if (agent && !isRevoked) {
    await tx.agents.put({ ...agent, revokedAt: context.now() });
    await tx.outbox.clear(install.name);
    await audit(tx, context, {
      actor: BY,
      action: "agent.revoked",
      subject: install.name,
      details: { agent: agent.id, because: "its install was destroyed" },
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
  const { install, release } = facts;
  const common = {
    audience: install.name,
    install: install.name,
    app: install.app,
    ...(release ? { release: release.id } : {}),
    because: step.because,
    requestedBy: install.requestedBy,
  };
  if (step.kind === "sync") {
    await issueJob(tx, context, { ...common, ...syncOrder(facts, step) });
    return;
  }
  const order = await componentOrder(tx, facts, step);
  await issueJob(tx, context, { ...common, ...order });
}

function syncOrder(
  { install, release, indexes }: InstallFacts,
  { materials, runner, key }: SyncStep,
): Pick<JobOrder, "step" | "about" | "reads"> {
  const refs = materials.map(({ repository, digest }) => ({ repository, digest }));
  const there = new Set([...install.synced, ...refs].map(artifactKey));
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
      releases: [...indexes.values()].filter((index) => there.has(artifactKey(index))),
    },
    about: { kind: "sync", key, materials: refs },
    reads: refs,
  };
}

async function componentOrder(tx: Tables, facts: InstallFacts, step: ComponentStep) {
  const { install, app } = facts;
  const row =
    (await tx.components.get(componentKey(install.name, step.component))) ??
    emptyComponent(install.name, step.component, step.type);
  const deployed = deployedBy(step, facts, row.attempted ?? row.deployed);
  if (step.kind === "apply") await tx.components.put({ ...row, attempted: deployed });
  const about =
    step.kind === "apply"
      ? { kind: "apply" as const, deployed }
      : step.kind === "plan"
        ? { kind: "plan" as const, deployKey: step.deployKey, type: step.type }
        : { kind: "destroy" as const };
  const index = facts.indexes.get(deployed.release);
  const wanted = app?.components.find(({ name }) => name === step.component);
  const seconds = wanted?.statusEverySeconds;
  const isWatched = step.kind === "apply" && deployed.effects.status !== undefined;
  return {
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
    about,
    inputs: deployed.inputs,
    generatedSecrets: deployed.generatedSecrets,
    ...(isWatched
      ? { statusEveryMs: seconds === undefined ? STATUS_EVERY_MS : seconds * 1_000 }
      : {}),
  };
}

/** What an apply of this step leaves; for a destroy, what is there. */
function deployedBy(
  step: ComponentStep,
  { install, release, app }: InstallFacts,
  there: Deployed | null,
): Deployed {
  if (step.kind === "destroy" && there) return there;
  const descriptor = release?.plugins.find(({ type }) => type === step.type)?.descriptor;
  const effects = Object.entries(descriptor?.operations ?? {}).map(([operation, { effect }]) => [
    operation,
    effect,
  ]);
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
    effects: Object.fromEntries(effects) as Deployed["effects"],
    release: release?.id ?? "",
  };
}
