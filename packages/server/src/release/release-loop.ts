// Carries releases under way to their end: gather, decide, commit.

import {
  type AppConfig,
  type ArtifactRef,
  ComponentName,
  ComponentType,
  type Digest,
  type ManifestStep,
  releaseRepository,
} from "@exclave/core";
import { audit, type ServerContext } from "../context.ts";
import { type JobOrder, tryIssueJob } from "../job/issue-job.ts";
import type { BuildRow, JobRow, ReleaseRow } from "../store/rows.ts";
import type { Readers, Tables } from "../store/store.ts";
import { releaseToChannel } from "./channels.ts";
import {
  indexKeys,
  materialsOf,
  planRelease,
  type ReleaseFacts,
  type ReleaseStep,
} from "./plan-release.ts";
import { indexAnnotations, type SealedRelease, sealRelease } from "./sign-release.ts";
import { isCounted, statementKeys } from "./statement-keys.ts";

export type ReadApp = (release: ReleaseRow) => AppConfig;

/** The signed index by which an agent knows what belongs to a release. */
export function releaseIndex(release: Pick<ReleaseRow, "app" | "digest">): ArtifactRef | undefined {
  const { digest } = release;
  return digest === null ? undefined : { repository: releaseRepository(release.app), digest };
}

/** Reconciles every release that is being built. */
export async function reconcileReleases(context: ServerContext, readApp: ReadApp): Promise<void> {
  for (const { id } of await context.store.read.releases.building()) {
    // Before the transaction: the registry is read and a key service may be asked.
    const sealed = await sealIfAssembled(context, readApp, id);
    const outcome = await context.store.transaction((tx) =>
      advance(tx, context, { readApp, id, sealed }),
    );
    if (!outcome) continue;
    const { release, movedChannel } = outcome;
    context.wake.outbox("build");
    if (release.state === "building") continue;
    const message = `release ${release.version} of ${release.appName} is ${release.state}`;
    context.live.say({ kind: "release", subject: id, install: null, component: null, message });
    if (movedChannel) context.wake.allInstalls();
  }
}

/** The statement of a release whose index is written, or why it gets none. */
async function sealIfAssembled(
  context: ServerContext,
  readApp: ReadApp,
  id: string,
): Promise<SealedRelease | undefined> {
  const before = await context.store.read.releases.get(id);
  if (before?.state !== "building") return undefined;
  const { release, steps } = planRelease(await gather(context.store.read, before, readApp));
  const step = steps.find(({ kind }) => kind === "sign");
  if (step?.kind !== "sign") return undefined;
  return sealRelease(context, release, readApp(before), step.index);
}

interface Advance {
  readonly readApp: ReadApp;
  readonly id: string;
  readonly sealed: SealedRelease | undefined;
}

async function advance(tx: Tables, context: ServerContext, { readApp, id, sealed }: Advance) {
  const before = await tx.releases.get(id);
  if (before?.state !== "building") return undefined;
  const facts = await gather(tx, before, readApp);
  const plan = planRelease(facts);

  let release = plan.release;
  for (const step of plan.steps) {
    if (step.kind === "sign") {
      // What was read a moment ago has changed: the next reconciliation reads it anew.
      if (sealed?.index.digest !== step.index.digest) {
        context.wake.releases();
        continue;
      }
      if (sealed.kind === "refused") {
        release = { ...release, state: "failed", because: sealed.because };
        continue;
      }
      const { numberMin: rollbackNumberMin, signedBy } = sealed;
      release = { ...release, rollbackNumberMin, signedBy: [...signedBy] };
    }
    const limits = buildLimits(facts.app, step);
    const order = { ...orderFor(release, step, sealed), limits };
    const issued = await tryIssueJob(tx, context, order);
    if ("failure" in issued) {
      release = { ...release, state: "failed", because: issued.failure.message };
      break;
    }
    release = withJob(release, step, issued.job);
  }
  const movedChannel = release.state === "ready" && release.channel !== null;
  if (release.state === "ready") release = await finish(tx, context, release);
  if (release.state === "failed") {
    await audit(tx, context, {
      actor: "server",
      action: "release.failed",
      subject: id,
      details: {
        app: release.app,
        appName: release.appName,
        version: release.version,
        because: release.because,
      },
    });
  }
  await tx.releases.put(release);
  return { release, movedChannel };
}

async function gather(tx: Readers, release: ReleaseRow, readApp: ReadApp): Promise<ReleaseFacts> {
  const image = await tx.images.get("plugin/image");
  const imagePlugin = image && { repository: image.repository, digest: image.digest };
  const app = readApp(release);
  const jobs = new Map<string, JobRow>();
  const ids = [...release.plugins, ...release.components].map(({ job }) => job);
  for (const id of [...ids, release.assembleJob, release.signJob]) {
    const job = id === null ? undefined : await tx.jobs.get(id);
    if (job) jobs.set(job.id, job);
  }
  // Which builds count is known only once the plugins are: ask, learn the keys, ask again.
  const builds = new Map<Digest, BuildRow>();
  const facts = { release, app, imagePlugin, builds, jobs };
  for (;;) {
    const { release: seen } = planRelease(facts);
    const keys = [
      ...[...seen.plugins, ...seen.components].flatMap(({ buildKey }) => buildKey ?? []),
      ...Object.values(indexKeys(release)),
    ].filter((key) => !builds.has(key));
    const found = (await Promise.all(keys.map((key) => tx.builds.get(key)))).flatMap(
      (build) => build ?? [],
    );
    if (found.length === 0) return facts;
    for (const build of found) builds.set(build.buildKey, build);
  }
}

function buildLimits(app: AppConfig, step: ReleaseStep) {
  if (step.kind !== "build") return undefined;
  return app.components.find(({ name }) => name === step.name)?.limits;
}

function orderFor(
  release: ReleaseRow,
  step: ReleaseStep,
  sealed: SealedRelease | undefined,
): JobOrder {
  const common = {
    audience: "build" as const,
    app: release.app,
    release: release.id,
    because: step.because,
    requestedBy: release.requestedBy,
    trace: release.trace,
  };
  if (step.kind === "assemble") {
    const repository = releaseRepository(release.app);
    return {
      ...common,
      step: assembleStep(release, step, repository),
      purpose: { kind: "assemble", buildKey: step.buildKey },
      reads: [release.runner, ...step.materials.map(toRef)],
      writes: [repository],
    };
  }
  if (step.kind === "sign") return signOrder(release, step, sealed);
  const { name, source, buildKey } = step;
  return {
    ...common,
    step: buildStep(step),
    purpose: { kind: "build", name, source, buildKey },
    reads: [step.plugin, ...step.materials.map(toRef)],
    writes: [step.repository],
  };
}

/** Attaches a signed statement to the release's index. */
export function signOrder(
  release: ReleaseRow,
  { index, buildKey, because }: Extract<ReleaseStep, { kind: "sign" }>,
  sealed: SealedRelease | undefined,
): JobOrder {
  const { repository } = index;
  const attach = sealed?.kind === "sealed" ? sealed.attach : undefined;
  return {
    audience: "build",
    app: release.app,
    release: release.id,
    because,
    requestedBy: release.requestedBy,
    trace: release.trace,
    step: signStep(release, repository, attach),
    purpose: { kind: "assemble", buildKey },
    reads: [release.runner, index],
    writes: [repository],
  };
}

function toRef({ repository, digest }: ReturnType<typeof materialsOf>[number]) {
  return { repository, digest };
}

function buildStep(step: Extract<ReleaseStep, { kind: "build" }>): ManifestStep {
  return {
    operation: "build",
    plugin: step.plugin,
    component: ComponentName.parse(step.name.replace("plugin:", "")),
    type: ComponentType.parse(step.type),
    artifact: { repository: "sources", digest: step.source },
    config: { ...step.config },
    parameters: { repository: step.repository },
    effect: "idempotent",
    materials: [...step.materials],
  };
}

function assembleStep(
  release: ReleaseRow,
  { materials }: Extract<ReleaseStep, { kind: "assemble" }>,
  repository: string,
): ManifestStep {
  return {
    operation: "assemble",
    plugin: release.runner,
    config: {},
    parameters: { repository, annotations: indexAnnotations(release), tag: release.id },
    effect: "idempotent",
    materials: [...materials],
  };
}

/** Only the build agent pushes, so it attaches the statement that was signed here. */
function signStep(release: ReleaseRow, repository: string, attach: unknown): ManifestStep {
  return {
    operation: "assemble",
    plugin: release.runner,
    config: {},
    parameters: { repository, attach },
    effect: "idempotent",
    materials: [],
  };
}

function withJob(release: ReleaseRow, step: ReleaseStep, { id: job }: JobRow): ReleaseRow {
  if (step.kind === "assemble") return { ...release, assembleJob: job };
  if (step.kind === "sign") return { ...release, signJob: job };
  const { name } = step;
  return {
    ...release,
    plugins: release.plugins.map((plugin) =>
      `plugin:${plugin.type}` === name ? { ...plugin, job } : plugin,
    ),
    components: release.components.map((component) =>
      component.name === name ? { ...component, job } : component,
    ),
  };
}

/** Its statement lies beside its index: the channel it was meant for moves. */
async function finish(
  tx: Tables,
  context: ServerContext,
  release: ReleaseRow,
): Promise<ReleaseRow> {
  const { app, appName, version, number, digest, channel } = release;
  await audit(tx, context, {
    actor: "server",
    action: "release.ready",
    subject: release.id,
    details: {
      app,
      appName,
      version,
      number,
      digest,
      signedBy: release.signedBy,
    },
  });
  const documents = context.trust.after(0).map(({ document }) => document);
  // Its key was revoked while it was built: nobody would find that out later.
  if (!isCounted(release, statementKeys(documents, context.now()))) {
    await tx.restatements.put({ release: release.id });
    context.wake.releases();
  }
  if (channel !== null) {
    await releaseToChannel(tx, context, release, channel);
  }
  return release;
}
