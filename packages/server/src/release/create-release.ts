// Takes in a release: checks everything that can be checked before anything is built.

import type { createRelease as call } from "@exclave/api";
import {
  type AppConfig,
  askedNow,
  type ComponentConfig,
  type Digest,
  Failure,
  type Instant,
  type PluginDescriptor,
} from "@exclave/core";
import type { z } from "zod";
import { audit, type ServerContext } from "../context.ts";
import { newReleaseId } from "../identifiers.ts";
import type {
  AppRow,
  ImageRow,
  ReleaseComponent,
  ReleasePlugin,
  ReleaseRow,
  ReleaseSandbox,
} from "../store/rows.ts";
import type { Readers, Tables } from "../store/store.ts";
import { checkedApp } from "./app-of-release.ts";
import { appNamed } from "./apps.ts";

type Body = z.output<(typeof call)["body"]>;

export async function createRelease(
  context: ServerContext,
  body: Body,
  by: string,
): Promise<ReleaseRow> {
  const { store, now, wake, live } = context;
  await publishedRunner(store.read);
  // Before the transaction: nobody waits for the database while a text is checked.
  const known = descriptorsFor(await store.read.images.ofKind("plugin"), body.plugins ?? {});
  const { config: text, file } = body;
  const sandboxes = await knownSandboxes(store.read);
  const check = { text, file, plugins: known, sandboxes };
  const app = checkedApp(await context.apps.check(check, by), file);
  const release = await store.transaction(async (tx) => {
    const runner = await publishedRunner(tx);
    const images = await tx.images.ofKind("plugin");
    const of = await appNamed(tx, context, { name: app.app, by });
    const [before] = (await tx.releases.ofApp(of.id, { limit: 1 })).items;
    const row: ReleaseRow = {
      id: newReleaseId(),
      app: of.id,
      appName: of.name,
      version: await versionFor(tx, of, body.version),
      number: await numberFor(tx, of, now()),
      state: "building",
      file: body.file,
      config: body.config,
      runner,
      plugins: pluginsOf(app, images, body),
      components: app.components.map((component) => componentOf(component, app, images, body)),
      channel: body.channel ?? null,
      assembleJob: null,
      sandboxes: (await tx.images.ofKind("sandbox")).map(sandboxOf),
      signJob: null,
      signedBy: null,
      unsignedBecause: null,
      digest: null,
      rollbackNumberMin: null,
      because: null,
      createdAt: askedNow(now(), before?.createdAt),
      requestedBy: by,
      trace: context.traces.current(),
    };
    await checkSources(tx, row);
    await tx.releases.put(row);
    await audit(tx, context, {
      actor: by,
      action: "release.created",
      subject: row.id,
      details: {
        app: row.app,
        appName: row.appName,
        version: row.version,
        channel: row.channel,
        sources: body.sources,
        because: body.because,
      },
    });
    return row;
  });
  const message = `release ${release.version} of ${release.appName} is being built`;
  live.say({ kind: "release", subject: release.id, install: null, component: null, message });
  wake.releases();
  return release;
}

/** The server's plugins, and what the vendor says of its own: its own win. */
export function descriptorsFor(
  images: readonly ImageRow[],
  own: Readonly<Record<string, PluginDescriptor>>,
): PluginDescriptor[] {
  const known = images.flatMap(({ descriptor }) => (descriptor ? [descriptor] : []));
  return [...known.filter(({ type }) => !(type in own)), ...Object.values(own)];
}

export async function knownSandboxes({ images }: Pick<Readers, "images">): Promise<string[]> {
  return (await images.ofKind("sandbox")).map(({ name }) => name);
}

async function publishedRunner({ images }: Pick<Readers, "images">): Promise<ReleaseRow["runner"]> {
  const [runner] = await images.ofKind("runner");
  if (runner) return { repository: runner.repository, digest: runner.digest };
  throw new Failure(
    "unavailable",
    "the build agent has not published the runner and the plugins yet; it does so when it connects",
  );
}

/**
 * Above every number before. Seconds, so that a server that was restored from a backup does not give
 * numbers again that its installs have seen, and would refuse.
 */
async function numberFor(tx: Tables, { id }: AppRow, now: Instant): Promise<number> {
  const { items } = await tx.releases.ofApp(id, { limit: 1 });
  return Math.max((items[0]?.number ?? 0) + 1, Math.floor(now / 1_000));
}

/** Setting one up twice is setting it up once, unless it says otherwise. */
const SANDBOX_EFFECTS = { apply: "idempotent", destroy: "idempotent" } as const;

function sandboxOf({ name, repository, digest, descriptor }: ImageRow): ReleaseSandbox {
  const said = Object.entries(descriptor?.operations ?? {}).map(([operation, { effect }]) => [
    operation,
    effect,
  ]);
  const effects = { ...SANDBOX_EFFECTS, ...Object.fromEntries(said) };
  return { type: name, image: { repository, digest }, effects };
}

async function versionFor(tx: Tables, of: AppRow, asked: string | undefined): Promise<string> {
  const { id: app, name } = of;
  if (asked === undefined) {
    // Above the newest: the number of one that is not kept any more is not given again.
    const [newest] = (await tx.releases.ofApp(app, { limit: 1 })).items;
    const last = Number(newest?.version);
    let number = Math.max(await tx.releases.count(app), Number.isSafeInteger(last) ? last : 0) + 1;
    while (await tx.releases.byVersion(app, String(number))) number++;
    return String(number);
  }
  if (await tx.releases.byVersion(app, asked)) {
    throw new Failure("conflict", `there is a release ${asked} of ${name} already`);
  }
  return asked;
}

function pluginsOf(app: AppConfig, images: readonly ImageRow[], body: Body): ReleasePlugin[] {
  const types = new Set(app.components.map(({ type }) => type as string));
  return [...types].map((type) => {
    const own = app.plugins.find((plugin) => plugin.type === type);
    return own ? ownPlugin(type, body) : publishedPlugin(type, images);
  });
}

function ownPlugin(type: string, { plugins = {}, sources }: Body): ReleasePlugin {
  const descriptor = plugins[type];
  const source = sources[`plugin:${type}`];
  if (!descriptor || !source) {
    const missing = descriptor
      ? "its source was not uploaded"
      : "its plugin.json was not sent along";
    throw new Failure("invalid", `the app brings its own plugin ${type}, and ${missing}`);
  }
  if (descriptor.type !== type) {
    throw new Failure("invalid", `the plugin.json of ${type} says its type is ${descriptor.type}`);
  }
  const unbuilt = { plugin: null, buildKey: null, job: null, reused: false };
  return { type, descriptor, own: true, source, ...unbuilt };
}

function publishedPlugin(type: string, images: readonly ImageRow[]): ReleasePlugin {
  const image = images.find(({ descriptor }) => descriptor?.type === type);
  if (!image?.descriptor) throw new Failure("invalid", `there is no plugin for the type ${type}`);
  const { descriptor, repository, digest } = image;
  const plugin = { repository, digest };
  const built = { source: null, buildKey: null, job: null, reused: false };
  return { type, descriptor, own: false, plugin, ...built };
}

function componentOf(
  component: ComponentConfig,
  app: AppConfig,
  images: readonly ImageRow[],
  body: Body,
): ReleaseComponent {
  const { name, type } = component;
  const descriptor = app.plugins.some((plugin) => plugin.type === type)
    ? body.plugins?.[type]
    : images.find((image) => image.descriptor?.type === type)?.descriptor;
  const source = builtSource(component, descriptor ?? undefined, body);
  return { name, type, source, buildKey: null, artifact: null, job: null, reused: false };
}

/** What is built from what; null where there is nothing to build. */
function builtSource(
  { name, source, type }: ComponentConfig,
  descriptor: PluginDescriptor | undefined,
  { sources }: Body,
): Digest | null {
  if (!descriptor?.operations.build) return null;
  if (source === undefined) {
    if (descriptor.source !== "required") return null;
    throw new Failure("invalid", `${name} needs a source: ${type} components are built from one`);
  }
  const digest = sources[name];
  if (!digest) throw new Failure("invalid", `the source of ${name} was not uploaded`);
  return digest;
}

async function checkSources(tx: Tables, { plugins, components }: ReleaseRow): Promise<void> {
  const named = [
    ...plugins.map(({ type, source }) => ({ name: `plugin ${type}`, source })),
    ...components.map(({ name, source }) => ({ name, source })),
  ];
  for (const { name, source } of named) {
    if (source === null || (await tx.sources.get(source))) continue;
    throw new Failure("invalid", `the source of ${name}, ${source}, was not uploaded`);
  }
}
