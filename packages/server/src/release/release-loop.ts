// Carries releases under way to their end: gather, decide, commit.

import {
  type AppConfig,
  type ArtifactRef,
  ComponentName,
  ComponentType,
  canonicalBytes,
  type Digest,
  digestOf,
  type ManifestStep,
  RELEASE_PAYLOAD_TYPE,
  releaseRepository,
  signEnvelope,
} from "@exclave/core";
import { audit, type ServerContext } from "../context.ts";
import { issueJob, type JobOrder } from "../issue-job.ts";
import type { BuildRow, JobRow, ReleaseRow } from "../store/rows.ts";
import type { Tables } from "../store/store.ts";
import { moveChannel } from "./channels.ts";
import {
  indexKeys,
  materialsOf,
  planRelease,
  type ReleaseFacts,
  type ReleaseStep,
} from "./plan-release.ts";
import { signRelease } from "./sign-release.ts";

export type ReadApp = (release: ReleaseRow) => AppConfig;

/** The signed index by which an agent knows what belongs to a release. */
export function releaseIndex(release: Pick<ReleaseRow, "app" | "digest">): ArtifactRef | undefined {
  const { digest } = release;
  return digest === null ? undefined : { repository: releaseRepository(release.app), digest };
}

/** One look at every release that is being built. */
export async function lookAtReleases(context: ServerContext, readApp: ReadApp): Promise<void> {
  for (const { id } of await context.store.read.releases.building()) {
    const outcome = await context.store.transaction((tx) => advance(tx, context, readApp, id));
    if (!outcome) continue;
    const { release, movedChannel } = outcome;
    context.wake.outbox("build");
    if (release.state === "building") continue;
    const message = `release ${release.version} of ${release.app} is ${release.state}`;
    context.live.say({ kind: "release", subject: id, install: null, component: null, message });
    if (movedChannel) context.wake.allInstalls();
  }
}

async function advance(tx: Tables, context: ServerContext, readApp: ReadApp, id: string) {
  const before = await tx.releases.get(id);
  if (before?.state !== "building") return undefined;
  const facts = await gather(tx, before, readApp);
  const plan = planRelease(facts);

  let release = plan.release;
  for (const step of plan.steps) {
    release = withJob(
      release,
      step,
      await issueJob(tx, context, await orderFor(context, release, step)),
    );
  }
  const movedChannel = release.state === "ready" && release.channel !== null;
  if (release.state === "ready") release = await finish(tx, context, release);
  if (release.state === "failed") {
    await audit(tx, context, {
      actor: "server",
      action: "release.failed",
      subject: id,
      details: { app: release.app, version: release.version, because: release.because },
    });
  }
  await tx.releases.put(release);
  return { release, movedChannel };
}

async function gather(tx: Tables, release: ReleaseRow, readApp: ReadApp): Promise<ReleaseFacts> {
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

async function orderFor(
  { keys }: Pick<ServerContext, "keys">,
  release: ReleaseRow,
  step: ReleaseStep,
): Promise<JobOrder> {
  const common = {
    audience: "build",
    app: release.app,
    release: release.id,
    because: step.because,
    requestedBy: release.requestedBy,
  };
  if (step.kind === "assemble") {
    const repository = releaseRepository(release.app);
    return {
      ...common,
      step: assembleStep(release, step, repository),
      about: { kind: "assemble", buildKey: step.buildKey },
      reads: [release.runner, ...step.materials.map(toRef)],
      writes: [repository],
    };
  }
  if (step.kind === "sign") {
    const { repository } = step.index;
    return {
      ...common,
      step: signStep(release, repository, await signRelease(keys.release, step)),
      about: { kind: "assemble", buildKey: step.buildKey },
      reads: [release.runner, step.index],
      writes: [repository],
    };
  }
  const { name, source, buildKey } = step;
  return {
    ...common,
    step: buildStep(step),
    about: { kind: "build", name, source, buildKey },
    reads: [step.plugin, ...step.materials.map(toRef)],
    writes: [step.repository],
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
  const annotations = {
    "org.opencontainers.image.title": release.app,
    "org.opencontainers.image.version": release.version,
    "dev.exclave.release": release.id,
  };
  return {
    operation: "assemble",
    plugin: release.runner,
    config: {},
    parameters: { repository, annotations, tag: release.id },
    effect: "idempotent",
    materials: [...materials],
  };
}

/** Only the build agent pushes, so it attaches the signature that was made here. */
function signStep(
  release: ReleaseRow,
  repository: string,
  attach: Awaited<ReturnType<typeof signRelease>>,
): ManifestStep {
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

/** Signs what the release is, and moves the channel it was meant for. */
async function finish(
  tx: Tables,
  context: ServerContext,
  release: ReleaseRow,
): Promise<ReleaseRow> {
  const payload = canonicalBytes(statementOf(release));
  const statement = signEnvelope(RELEASE_PAYLOAD_TYPE, payload, context.keys.release);
  const { app, version, digest, channel } = release;
  await audit(tx, context, {
    actor: "server",
    action: "release.ready",
    subject: release.id,
    details: { app, version, digest, signedBy: context.keys.release.keyid },
  });
  const ready = { ...release, statement };
  if (channel !== null) {
    await moveChannel(tx, context, { release: ready, name: channel, by: release.requestedBy });
  }
  return ready;
}

function statementOf(release: ReleaseRow): Record<string, unknown> {
  const { id, app, version, digest, runner, createdAt } = release;
  return {
    version: 1,
    release: { id, app, version, digest },
    config: digestOf(release.config),
    runner,
    plugins: release.plugins.map(({ type, plugin }) => ({ type, plugin })),
    components: release.components.map(({ name, type, artifact }) => ({ name, type, artifact })),
    materials: materialsOf(release),
    createdAt,
  };
}
