// What the planner compares, made from rows: what is wanted of an install, and what is there.

import {
  type AppConfig,
  type ArtifactRef,
  artifactKey,
  ComponentName,
  ComponentType,
  type Deployed,
  type DeployedComponent,
  type HealthNow,
  healthNow,
  InstallName,
  type Instant,
  inputValues,
  type Seen,
  type SeenComponent,
  STATUS_EVERY_MS,
  seenAgent,
  seenComponent,
  type Wanted,
  type WantedComponent,
} from "@exclave/core";
import type { AgentWatch, ServerContext } from "../context.ts";
import { releaseIndex } from "../release/release-loop.ts";
import type { AgentRow, ComponentRow, InstallRow, JobRow, ReleaseRow } from "../store/rows.ts";
import type { Readers } from "../store/store.ts";

export interface InstallFacts {
  readonly install: InstallRow;
  /** What the install follows, if that is known and can be deployed. */
  readonly release?: ReleaseRow;
  readonly app?: AppConfig;
  readonly components: readonly ComponentRow[];
  /** Signed indexes, by release, of everything the install has or wants. */
  readonly indexes: ReadonlyMap<string, ArtifactRef>;
  /** The same releases themselves. */
  readonly releases: ReadonlyMap<string, ReleaseRow>;
  /** Jobs of the install that are not over: its own agent's, and the setup agent's about it. */
  readonly open: readonly JobRow[];
  readonly agent?: AgentRow;
  readonly isAgentOnline: boolean;
  /** What the agent's connection says of its looks; absent while it is away. */
  readonly watch?: AgentWatch;
  readonly isSetupOnline: boolean;
  readonly serverStartedAt: Instant;
  /** The release its sandbox is set up from, or taken down by. */
  readonly sandboxRelease?: ReleaseRow;
}

export async function gatherInstall(
  {
    store,
    readApp,
    presence,
    startedAt,
  }: Pick<ServerContext, "store" | "readApp" | "presence" | "startedAt">,
  install: InstallRow,
): Promise<InstallFacts> {
  const tx = store.read;
  const release = await wantedRelease(tx, install);
  const agent = await tx.agents.byAudience(install.id);
  const components = await tx.components.ofInstall(install.id);
  const watch = presence.watchOf(install.id);
  const setUpFrom = install.setUpRelease;
  const sandboxRelease =
    install.mode === "present" || setUpFrom === null ? release : await tx.releases.get(setUpFrom);
  const known = await releasesOf(tx, components, release);
  return {
    install,
    ...(release ? { release, app: readApp(release) } : {}),
    components,
    // One that cannot be stated again any more would only keep every sync from its end.
    indexes: signedIndexes(known.filter((row) => row === release || row.unsignedBecause === null)),
    releases: new Map(known.map((row) => [row.id, row])),
    open: await tx.jobs.openOfInstall(install.id),
    ...(agent ? { agent } : {}),
    isAgentOnline: presence.isOnline(install.id),
    ...(watch ? { watch } : {}),
    isSetupOnline: presence.isOnline("setup"),
    serverStartedAt: startedAt,
    ...(sandboxRelease ? { sandboxRelease } : {}),
  };
}

async function releasesOf(
  tx: Readers,
  components: readonly ComponentRow[],
  wanted: ReleaseRow | undefined,
): Promise<ReleaseRow[]> {
  const there = components.flatMap(({ deployed, attempted }) => [deployed, attempted]);
  const ids = new Set(there.flatMap((trace) => trace?.release ?? []));
  const rows = await Promise.all([...ids].map((id) => tx.releases.get(id)));
  return [wanted, ...rows].filter((row) => row !== undefined);
}

function signedIndexes(releases: readonly ReleaseRow[]): Map<string, ArtifactRef> {
  return new Map(
    releases.flatMap((row) => {
      const index = releaseIndex(row);
      return index ? [[row.id, index] as const] : [];
    }),
  );
}

async function wantedRelease(tx: Readers, install: InstallRow): Promise<ReleaseRow | undefined> {
  const channel = await tx.channels.of(install.app, install.channel);
  const id = install.pinnedRelease ?? channel?.release;
  const release = id === null || id === undefined ? undefined : await tx.releases.get(id);
  return release?.state === "ready" ? release : undefined;
}

/** Undefined while nothing can be wanted: no release yet, and nothing that has to go. */
export function wantedOf({ install, release, app, indexes }: InstallFacts): Wanted | undefined {
  const runner = release?.runner ?? install.runner;
  if (!runner || (install.mode === "present" && !release)) return undefined;
  const index = release && indexes.get(release.id);
  return {
    install: InstallName.parse(install.name),
    app: install.appName,
    channel: install.channel,
    mode: install.mode,
    ...(release ? { release: release.version } : {}),
    ...(index ? { index } : {}),
    runner,
    components: release && app ? wantedComponents(install, release, app) : [],
    allowDestroy: new Set(install.allowDestroy.map((name) => ComponentName.parse(name))),
  };
}

export function wantedComponents(
  install: InstallRow,
  release: ReleaseRow,
  app: AppConfig,
): WantedComponent[] {
  const values = inputValues(app, install.inputs);
  return app.components.flatMap((component): WantedComponent[] => {
    const { name, type, config, uses, needs, repair } = component;
    const built = release.components.find((candidate) => candidate.name === name);
    const plugin = release.plugins.find((candidate) => candidate.type === type);
    if (!plugin?.plugin) return [];
    return [
      {
        name,
        type,
        plugin: plugin.plugin,
        ...(built?.artifact ? { artifact: built.artifact } : {}),
        config,
        inputs: Object.fromEntries(uses.inputs.map((input) => [input, values[input] ?? null])),
        references: uses.components,
        dependsOn: needs,
        plannable: plugin.descriptor.operations.plan !== undefined,
        appliesOnce: plugin.descriptor.operations.apply?.effect === "at-most-once",
        ...(repair === undefined ? {} : { repair }),
      },
    ];
  });
}

export function seenOf(facts: InstallFacts, now: Instant): Seen {
  const { install, components, open } = facts;
  const sync = open.find(({ purpose }) => purpose.kind === "sync");
  const names = new Set([
    ...components.map(({ name }) => name),
    ...open.flatMap(({ component, purpose }) =>
      component !== null && isComponentWork(purpose.kind) ? [component] : [],
    ),
  ]);
  return {
    agent: seenAgent(facts),
    synced: new Set(install.synced.map(artifactKey)),
    ...(install.runner ? { runner: install.runner } : {}),
    ...(sync ? { activeSync: { job: sync.id, state: sync.state.status } } : {}),
    ...(install.syncFailure ? { syncFailure: install.syncFailure } : {}),
    components: new Map(
      [...names].map((name) => [ComponentName.parse(name), seenNamed(name, facts, now)]),
    ),
  };
}

export function isComponentWork(
  kind: JobRow["purpose"]["kind"],
): kind is "plan" | "apply" | "destroy" {
  return kind === "plan" || kind === "apply" || kind === "destroy";
}

export function healthOf(row: ComponentRow, facts: InstallFacts, now: Instant): HealthNow {
  const { deployed } = row;
  const everyMs = deployed?.effects.status && (deployed.statusEveryMs ?? STATUS_EVERY_MS);
  const lookedAt = facts.watch?.looks.get(row.name);
  return healthNow(row, { agent: seenAgent(facts), everyMs, lookedAt }, now);
}

function seenNamed(name: string, facts: InstallFacts, now: Instant): SeenComponent {
  const { components, open, indexes } = facts;
  const row = components.find((component) => component.name === name);
  const active = open.find((job) => job.component === name && isComponentWork(job.purpose.kind));
  const kind = active?.purpose.kind;
  return {
    ...(row
      ? seenComponent(row, (trace) => deployedComponent(trace, indexes), healthOf(row, facts, now))
      : {}),
    ...(active && kind && isComponentWork(kind)
      ? { activeJob: { job: active.id, operation: kind, state: active.state.status } }
      : {}),
  };
}

function deployedComponent(
  deployed: Deployed,
  indexes: InstallFacts["indexes"],
): DeployedComponent {
  const { deployKey, type, artifact, plugin, config, dependsOn, effects } = deployed;
  const index = indexes.get(deployed.release);
  return {
    deployKey,
    type: ComponentType.parse(type),
    plugin,
    ...(artifact ? { artifact } : {}),
    config,
    dependsOn: dependsOn.map((name) => ComponentName.parse(name)),
    ...(index ? { index } : {}),
    plannable: effects.plan !== undefined,
    appliesOnce: effects.apply === "at-most-once",
  };
}
