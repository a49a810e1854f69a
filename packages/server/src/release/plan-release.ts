// Decides what a release needs next, from what is built already: the vendor's own plugins first,
// then the components side by side, then the index that holds them all. Level-based like every
// decision here: it may run twice, late or after a crash.

import {
  type AppConfig,
  type ArtifactRef,
  componentRepository,
  type Digest,
  digestOf,
  ownPluginRepository,
} from "@exclave/core";
import type {
  BuildRow,
  JobRow,
  ReleaseComponent,
  ReleasePlugin,
  ReleaseRow,
} from "../store/rows.ts";

export interface ReleaseFacts {
  readonly release: ReleaseRow;
  readonly app: AppConfig;
  /** The image that builds the vendor's own plugins. */
  readonly imagePlugin: ArtifactRef | undefined;
  readonly builds: ReadonlyMap<Digest, BuildRow>;
  /** The release's own jobs, by id. */
  readonly jobs: ReadonlyMap<string, JobRow>;
}

export type ReleaseStep =
  | {
      readonly kind: "build";
      /** A component's name, or `plugin:<type>`. */
      readonly name: string;
      readonly type: string;
      readonly plugin: ArtifactRef;
      readonly source: Digest;
      readonly config: Readonly<Record<string, unknown>>;
      readonly repository: string;
      readonly buildKey: Digest;
      readonly materials: readonly (ArtifactRef & { readonly name: string })[];
      readonly because: string;
    }
  | {
      readonly kind: "assemble";
      readonly materials: readonly (ArtifactRef & { readonly name: string })[];
      readonly buildKey: Digest;
      readonly because: string;
    }
  /** The release's index is there: it is read, stated, and the statement attached to it. */
  | {
      readonly kind: "sign";
      readonly index: ArtifactRef;
      readonly buildKey: Digest;
      readonly because: string;
    };

export interface ReleasePlan {
  /** The release with what is known by now filled in. */
  readonly release: ReleaseRow;
  readonly steps: readonly ReleaseStep[];
}

export function planRelease(facts: ReleaseFacts): ReleasePlan {
  const plugins = facts.release.plugins.map((plugin) => resolvePlugin(plugin, facts));
  const components = facts.release.components.map((component) =>
    resolveComponent(component, plugins, facts),
  );
  const release = { ...facts.release, plugins, components };

  const because = failedBecause(release, facts);
  if (because !== undefined)
    return { release: { ...release, state: "failed", because }, steps: [] };

  const steps = [
    ...plugins.flatMap((plugin) => pluginBuild(plugin, facts)),
    ...components.flatMap((component) => componentBuild(component, plugins, facts)),
  ];
  const isBuilt = steps.length === 0 && isComplete(release);
  return isBuilt ? assemble(release, facts) : { release, steps };
}

function resolvePlugin(plugin: ReleasePlugin, facts: ReleaseFacts): ReleasePlugin {
  if (plugin.plugin || plugin.source === null || !facts.imagePlugin) return plugin;
  const buildKey = digestOf({
    source: plugin.source,
    plugin: facts.imagePlugin.digest,
    base: facts.release.runner.digest,
  });
  const built = facts.builds.get(buildKey);
  const reused = built !== undefined && plugin.job === null;
  return { ...plugin, buildKey, plugin: built?.artifact ?? null, reused };
}

/** Two builds are the same build when source, plugin and the keys that a build reads are the same. */
function resolveComponent(
  component: ReleaseComponent,
  plugins: readonly ReleasePlugin[],
  facts: ReleaseFacts,
): ReleaseComponent {
  if (component.artifact || component.source === null) return component;
  const plugin = pluginOf(component, plugins);
  if (!plugin?.plugin) return component;
  const buildKey = digestOf({
    app: facts.release.app,
    component: component.name,
    source: component.source,
    plugin: plugin.plugin.digest,
    config: buildConfig(component, plugin, facts),
  });
  const built = facts.builds.get(buildKey);
  const reused = built !== undefined && component.job === null;
  return { ...component, buildKey, artifact: built?.artifact ?? null, reused };
}

function buildConfig(
  component: ReleaseComponent,
  { descriptor }: ReleasePlugin,
  facts: ReleaseFacts,
): Record<string, unknown> {
  const config = configOf(component, facts);
  return Object.fromEntries(
    descriptor.buildKeys.filter((key) => key in config).map((key) => [key, config[key]]),
  );
}

function configOf(
  component: ReleaseComponent,
  { app }: ReleaseFacts,
): Readonly<Record<string, unknown>> {
  return app.components.find(({ name }) => name === component.name)?.config ?? {};
}

function pluginOf(
  { type }: ReleaseComponent,
  plugins: readonly ReleasePlugin[],
): ReleasePlugin | undefined {
  return plugins.find((plugin) => plugin.type === type);
}

function failedBecause(release: ReleaseRow, { jobs }: ReleaseFacts): string | undefined {
  const made = [
    ...release.plugins.map(({ type, job }) => ({ what: `the build of plugin ${type}`, job })),
    ...release.components.map(({ name, job }) => ({ what: `the build of ${name}`, job })),
    { what: "writing the release", job: release.assembleJob },
    { what: "signing the release", job: release.signJob },
  ];
  for (const { what, job: id } of made) {
    const job = id === null ? undefined : jobs.get(id);
    if (job?.failure) return `${what} failed (${job.failure.code}): ${job.failure.message}`;
  }
  return undefined;
}

function pluginBuild(plugin: ReleasePlugin, facts: ReleaseFacts): ReleaseStep[] {
  const { type, source, buildKey, job } = plugin;
  const { release, imagePlugin } = facts;
  if (plugin.plugin || job !== null || source === null || buildKey === null || !imagePlugin)
    return [];
  return [
    {
      kind: "build",
      name: `plugin:${type}`,
      type: "image",
      plugin: imagePlugin,
      source,
      config: {},
      repository: ownPluginRepository(release.app, type),
      buildKey,
      materials: [{ name: "base", ...release.runner }],
      because: `release ${release.version} brings its own plugin ${type}`,
    },
  ];
}

function componentBuild(
  component: ReleaseComponent,
  plugins: readonly ReleasePlugin[],
  facts: ReleaseFacts,
): ReleaseStep[] {
  const { name, type, source, buildKey, artifact, job } = component;
  const plugin = pluginOf(component, plugins)?.plugin;
  if (artifact || job !== null || source === null || buildKey === null || !plugin) return [];
  return [
    {
      kind: "build",
      name,
      type,
      plugin,
      source,
      config: configOf(component, facts),
      repository: componentRepository(facts.release.app, name),
      buildKey,
      materials: [{ name: "base", ...facts.release.runner }],
      because: `release ${facts.release.version}: its source, plugin or build settings are new`,
    },
  ];
}

function isComplete({ plugins, components }: ReleaseRow): boolean {
  return (
    plugins.every(({ plugin }) => plugin !== null) &&
    components.every(({ source, artifact }) => source === null || artifact !== null)
  );
}

/** Under which an index and its signature are remembered as built. */
export function indexKeys({ id }: Pick<ReleaseRow, "id">): { index: Digest; signature: Digest } {
  return { index: digestOf({ assemble: id }), signature: digestOf({ sign: id }) };
}

function assemble(release: ReleaseRow, facts: ReleaseFacts): ReleasePlan {
  const buildKey = indexKeys(release).index;
  const written = facts.builds.get(buildKey);
  if (written) return sign({ ...release, digest: written.artifact.digest }, written, facts);
  if (release.assembleJob !== null) return { release, steps: [] };
  const because = `everything of release ${release.version} is built`;
  return {
    release,
    steps: [{ kind: "assemble", materials: materialsOf(release), buildKey, because }],
  };
}

/** A release is ready when its signature lies beside it, and not before. */
function sign(release: ReleaseRow, index: BuildRow, { builds }: ReleaseFacts): ReleasePlan {
  const buildKey = indexKeys(release).signature;
  if (builds.has(buildKey)) return { release: { ...release, state: "ready" }, steps: [] };
  if (release.signJob !== null) return { release, steps: [] };
  const because = `release ${release.version} is written`;
  return { release, steps: [{ kind: "sign", index: index.artifact, buildKey, because }] };
}

/** All that an install needs of a release, each once. */
export function materialsOf(release: ReleaseRow): (ArtifactRef & { readonly name: string })[] {
  const used = new Set(release.components.map(({ type }) => type));
  return [
    { name: "runner", ...release.runner },
    ...release.plugins.flatMap(({ type, plugin }) =>
      plugin && used.has(type) ? [{ name: `plugin:${type}`, ...plugin }] : [],
    ),
    ...release.components.flatMap(({ name, artifact }) =>
      artifact ? [{ name, ...artifact }] : [],
    ),
  ];
}
