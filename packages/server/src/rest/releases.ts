import {
  type ChannelView,
  checkApp,
  createRelease,
  getRelease,
  getReleaseKey,
  listChannels,
  listReleases,
  type ReleaseView,
  setChannel,
} from "@exclave/api";
import { Failure } from "@exclave/core";
import { checkedApp } from "../release/app-of-release.ts";
import { moveChannel, readyRelease } from "../release/channels.ts";
import { descriptorsFor, createRelease as takeRelease } from "../release/create-release.ts";
import type { ChannelRow, ReleaseRow } from "../store/rows.ts";
import type { Readers } from "../store/store.ts";
import { type Handler, handler, streamHandler } from "./handler.ts";

export const RELEASE_HANDLERS: readonly Handler[] = [
  handler(createRelease, async ({ body, caller, context }) =>
    viewRelease(await takeRelease(context, body, caller.name)),
  ),

  handler(listReleases, async ({ query, context }) => {
    const { app, ...page } = query;
    const { items, next } = await context.store.read.releases.ofApp(app, page);
    return { items: items.map(viewRelease), next };
  }),

  handler(getRelease, async ({ params, context }) => {
    const release = await context.store.read.releases.get(params.release);
    if (!release) throw new Failure("not_found", `there is no release ${params.release}`);
    return viewRelease(release);
  }),

  streamHandler(getReleaseKey, async ({ reply, context }) => {
    const { publicKey } = context.keys.release;
    const pem = publicKey.export({ type: "spki", format: "pem" });
    await reply.code(200).type("application/x-pem-file").send(pem);
  }),

  handler(checkApp, async ({ body, context }) => {
    const images = await context.store.read.images.ofKind("plugin");
    const app = checkedApp(body.config, {
      file: body.file,
      plugins: descriptorsFor(images, body.plugins ?? {}),
    });
    return { app: app.app, components: app.components.map(({ name }) => name) };
  }),

  handler(listChannels, async ({ query, context }) => {
    const channels = await context.store.read.channels.all();
    const meant = channels.filter(({ app }) => query.app === undefined || app === query.app);
    const items = await Promise.all(meant.map((row) => viewChannel(context.store.read, row)));
    return { items, next: null };
  }),

  handler(setChannel, async ({ params, body, caller, context }) => {
    const { app, channel: name } = params;
    const channel = await context.store.transaction(async (tx) => {
      const release = await readyRelease(tx, app, body.release);
      return moveChannel(tx, context, { release, name, by: caller.name });
    });
    const message = `channel ${name} of ${app} points at ${channel.release}`;
    const subject = `${app}/${name}`;
    context.live.say({ kind: "channel", subject, install: null, component: null, message });
    context.wake.allInstalls();
    return viewChannel(context.store.read, channel);
  }),
];

export function viewRelease(release: ReleaseRow): ReleaseView {
  const { id, app, version, state, digest, channel, because, createdAt, requestedBy } = release;
  return {
    id,
    app,
    version,
    state,
    digest,
    signed: release.statement !== null,
    ...(release.statement ? { statement: release.statement } : {}),
    channel,
    because,
    components: release.components.map(({ name, type, artifact, reused, job }) => ({
      name,
      type,
      artifact: artifact?.digest ?? null,
      reused,
      job,
    })),
    createdAt,
    requestedBy,
  };
}

async function viewChannel({ releases }: Readers, channel: ChannelRow): Promise<ChannelView> {
  const release = channel.release === null ? undefined : await releases.get(channel.release);
  return { ...channel, version: release?.version ?? null };
}
