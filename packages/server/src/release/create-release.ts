// Takes in a release: checks everything that can be checked before anything is built.

import type { createRelease as call } from "@exclave/api";
import {
  type AppConfig,
  type ComponentConfig,
  type Digest,
  Failure,
  type PluginDescriptor,
} from "@exclave/core";
import type { z } from "zod";
import { audit, type ServerContext } from "../context.ts";
import { newReleaseId } from "../identifiers.ts";
import type { ImageRow, ReleaseComponent, ReleasePlugin, ReleaseRow } from "../store/rows.ts";
import type { Readers, Tables } from "../store/store.ts";
import { checkedApp } from "./app-of-release.ts";

type Body = z.output<(typeof call)["body"]>;

export async function createRelease(
  context: ServerContext,
  body: Body,
  by: string,
): Promise<ReleaseRow> {
  const { store, now, wake, live } = context;
  const release = await store.transaction(async (tx) => {
    const runner = await publishedRunner(tx);
    const images = await tx.images.ofKind("plugin");
    const app = checkedApp(body.config, {
      file: body.file,
      plugins: descriptorsFor(images, body.plugins ?? {}),
    });
    const row: ReleaseRow = {
      id: newReleaseId(),
      app: app.app,
      version: await versionFor(tx, app.app, body.version),
      state: "building",
      file: body.file,
      config: body.config,
      runner,
      plugins: pluginsOf(app, images, body),
      components: app.components.map((component) => componentOf(component, app, images, body)),
      channel: body.channel ?? null,
      assembleJob: null,
      signJob: null,
      digest: null,
      statement: null,
      because: null,
      createdAt: now(),
      requestedBy: by,
    };
    await checkSources(tx, row);
    await tx.releases.put(row);
    await audit(tx, context, {
      actor: by,
      action: "release.created",
      subject: row.id,
      details: {
        app: row.app,
        version: row.version,
        channel: row.channel,
        sources: body.sources,
        because: body.because,
      },
    });
    return row;
  });
  const message = `release ${release.version} of ${release.app} is being built`;
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

async function publishedRunner({ images }: Pick<Readers, "images">): Promise<ReleaseRow["runner"]> {
  const [runner] = await images.ofKind("runner");
  if (runner) return { repository: runner.repository, digest: runner.digest };
  throw new Failure(
    "unavailable",
    "the build agent has not published the runner and the plugins yet; it does so when it connects",
  );
}

async function versionFor(tx: Tables, app: string, asked: string | undefined): Promise<string> {
  if (asked === undefined) {
    let number = (await tx.releases.count(app)) + 1;
    while (await tx.releases.byVersion(app, String(number))) number++;
    return String(number);
  }
  if (await tx.releases.byVersion(app, asked)) {
    throw new Failure("conflict", `there is a release ${asked} of ${app} already`);
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
