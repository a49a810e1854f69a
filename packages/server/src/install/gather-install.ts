// What the planner compares, made from rows: what is wanted of an install, and what is there.

import {
  type AppConfig,
  type ArtifactRef,
  artifactKey,
  ComponentName,
  ComponentType,
  type DeployedComponent,
  InstallName,
  type Seen,
  type SeenAgent,
  type SeenComponent,
  type Wanted,
  type WantedComponent,
} from "@exclave/core";
import type { ServerContext } from "../context.ts";
import { releaseIndex } from "../release/release-loop.ts";
import type {
  AgentRow,
  ComponentRow,
  Deployed,
  ImageRow,
  InstallRow,
  JobRow,
  ReleaseRow,
} from "../store/rows.ts";
import type { Readers } from "../store/store.ts";
import { inputValues } from "./inputs.ts";

export interface InstallFacts {
  readonly install: InstallRow;
  /** What the install follows, if that is known and can be deployed. */
  readonly release?: ReleaseRow;
  readonly app?: AppConfig;
  readonly components: readonly ComponentRow[];
  /** Signed indexes, by release, of everything the install has or wants. */
  readonly indexes: ReadonlyMap<string, ArtifactRef>;
  /** Jobs of the install that are not over: its own agent's, and the setup agent's about it. */
  readonly open: readonly JobRow[];
  readonly agent?: AgentRow;
  readonly isAgentOnline: boolean;
  readonly isSetupOnline: boolean;
  readonly sandboxImage?: ImageRow;
  readonly runnerImage?: ImageRow;
}

export async function gatherInstall(
  { store, readApp, presence }: Pick<ServerContext, "store" | "readApp" | "presence">,
  install: InstallRow,
): Promise<InstallFacts> {
  const tx = store.read;
  const release = await wantedRelease(tx, install);
  const agent = await tx.agents.byAudience(install.name);
  const sandboxImage = await tx.images.get(`sandbox/${install.sandbox}`);
  const [runnerImage] = await tx.images.ofKind("runner");
  const components = await tx.components.ofInstall(install.name);
  const setup = (await tx.jobs.open("setup")).filter((job) => job.install === install.name);
  return {
    install,
    ...(release ? { release, app: readApp(release) } : {}),
    components,
    indexes: await signedIndexes(tx, components, release),
    open: [...(await tx.jobs.open(install.name)), ...setup],
    ...(agent ? { agent } : {}),
    isAgentOnline: presence.isOnline(install.name),
    isSetupOnline: presence.isOnline("setup"),
    ...(sandboxImage ? { sandboxImage } : {}),
    ...(runnerImage ? { runnerImage } : {}),
  };
}

async function signedIndexes(
  tx: Readers,
  components: readonly ComponentRow[],
  wanted: ReleaseRow | undefined,
): Promise<Map<string, ArtifactRef>> {
  const there = components.flatMap(({ deployed, attempted }) => [deployed, attempted]);
  const ids = new Set(there.flatMap((trace) => trace?.release ?? []));
  const rows = await Promise.all([...ids].map((id) => tx.releases.get(id)));
  return new Map(
    [wanted, ...rows].flatMap((row) => {
      const index = row && releaseIndex(row);
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
    mode: install.mode,
    ...(release ? { release: release.version } : {}),
    ...(index ? { index } : {}),
    runner,
    components: release && app ? wantedComponents(install, release, app) : [],
    allowDestroy: new Set(install.allowDestroy.map((name) => ComponentName.parse(name))),
  };
}

function wantedComponents(
  install: InstallRow,
  release: ReleaseRow,
  app: AppConfig,
): WantedComponent[] {
  const values = inputValues(app, install.inputs);
  return app.components.flatMap((component): WantedComponent[] => {
    const { name, type, config, uses, needs } = component;
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
      },
    ];
  });
}

export function seenOf(facts: InstallFacts): Seen {
  const { install, components, open } = facts;
  const sync = open.find(({ about }) => about.kind === "sync");
  const names = new Set([
    ...components.map(({ name }) => name),
    ...open.flatMap(({ component, about }) =>
      component !== null && isComponentWork(about.kind) ? [component] : [],
    ),
  ]);
  return {
    agent: seenAgent(facts),
    synced: new Set(install.synced.map(artifactKey)),
    ...(install.runner ? { runner: install.runner } : {}),
    ...(sync ? { activeSync: { job: sync.id, state: sync.state.status } } : {}),
    ...(install.syncFailure ? { syncFailure: withoutAbsent(install.syncFailure) } : {}),
    components: new Map(
      [...names].map((name) => [ComponentName.parse(name), seenComponent(name, facts)]),
    ),
  };
}

function seenAgent({ agent, isAgentOnline }: InstallFacts): SeenAgent {
  if (isAgentOnline) return { status: "online" };
  if (!agent?.everConnected) return { status: "never" };
  return { status: "offline", since: agent.seenAt };
}

export function isComponentWork(
  kind: JobRow["about"]["kind"],
): kind is "plan" | "apply" | "destroy" {
  return kind === "plan" || kind === "apply" || kind === "destroy";
}

function seenComponent(name: string, facts: InstallFacts): SeenComponent {
  const { components, open, indexes } = facts;
  const row = components.find((component) => component.name === name);
  const active = open.find((job) => job.component === name && isComponentWork(job.about.kind));
  const kind = active?.about.kind;
  return {
    ...(row?.deployed
      ? { deployed: deployedComponent(row.deployed, indexes, row.outputsDigest) }
      : {}),
    ...(row?.attempted ? { attempted: deployedComponent(row.attempted, indexes, null) } : {}),
    ...(row?.plan ? { plan: row.plan } : {}),
    ...(active && kind && isComponentWork(kind)
      ? { activeJob: { job: active.id, operation: kind, state: active.state.status } }
      : {}),
    ...(row?.lastFailure ? { lastFailure: lastFailure(row.lastFailure) } : {}),
  };
}

function lastFailure({ key, ...failure }: NonNullable<ComponentRow["lastFailure"]>) {
  return { ...failure, ...(key === undefined ? {} : { deployKey: key }) };
}

function withoutAbsent({ key, ...failure }: NonNullable<InstallRow["syncFailure"]>) {
  return { ...failure, ...(key === undefined ? {} : { key }) };
}

function deployedComponent(
  deployed: Deployed,
  indexes: InstallFacts["indexes"],
  outputsDigest: string | null,
): DeployedComponent {
  const { deployKey, type, artifact, plugin, config, dependsOn } = deployed;
  const index = indexes.get(deployed.release);
  return {
    deployKey,
    type: ComponentType.parse(type),
    plugin,
    ...(artifact ? { artifact } : {}),
    config,
    dependsOn: dependsOn.map((name) => ComponentName.parse(name)),
    ...(index ? { index } : {}),
    ...(outputsDigest === null ? {} : { outputsDigest }),
  };
}
