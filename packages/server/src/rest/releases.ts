import { createPublicKey } from "node:crypto";
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
  timeOf,
} from "@exclave/api";
import { Failure } from "@exclave/core";
import { checkedApp } from "../release/app-of-release.ts";
import { knownApp } from "../release/apps.ts";
import { moveChannel, readyRelease } from "../release/channels.ts";
import {
  descriptorsFor,
  knownSandboxes,
  createRelease as takeRelease,
} from "../release/create-release.ts";
import type { ChannelRow, ReleaseRow } from "../store/rows.ts";
import { channelKey, type Readers } from "../store/store.ts";
import { type Handler, handler, streamHandler } from "./handler.ts";
import { inTurns } from "./in-turns.ts";

export const RELEASE_HANDLERS: readonly Handler[] = [
  handler(createRelease, async ({ body, caller, context }) =>
    viewRelease(await takeRelease(context, body, caller.name)),
  ),

  handler(listReleases, async ({ query, context, charge }) => {
    const { app, ...page } = query;
    const { read } = context.store;
    const of = app === undefined ? undefined : (await knownApp(read, app)).id;
    const { items, next } = await read.releases.ofApp(of, page);
    return { items: await inTurns(items, charge, viewRelease), next };
  }),

  handler(getRelease, async ({ params, context }) => {
    const release = await context.store.read.releases.get(params.release);
    if (!release) throw new Failure("not_found", `there is no release ${params.release}`);
    return viewRelease(release);
  }),

  streamHandler(getReleaseKey, async ({ reply, context }) => {
    const [key] = await context.trust.signingKeys("release");
    if (!key) throw new Failure("unavailable", "nobody can sign a release");
    const der = { key: Buffer.from(key.spki, "base64"), format: "der", type: "spki" } as const;
    const pem = createPublicKey(der).export({ type: "spki", format: "pem" });
    await reply.code(200).type("application/x-pem-file").send(pem);
  }),

  handler(checkApp, async ({ body, caller, context }) => {
    const images = await context.store.read.images.ofKind("plugin");
    const { config: text, file } = body;
    const plugins = descriptorsFor(images, body.plugins ?? {});
    const sandboxes = await knownSandboxes(context.store.read);
    const check = { text, file, plugins, sandboxes };
    const app = checkedApp(await context.apps.check(check, caller.name), file);
    return { app: app.app, components: app.components.map(({ name }) => name) };
  }),

  handler(listChannels, async ({ query, context, charge }) => {
    const channels = await context.store.read.channels.all();
    const meant = channels.filter(
      ({ app, appName }) => query.app === undefined || [app, appName].includes(query.app),
    );
    const items = await inTurns(meant, charge, (row) => viewChannel(context.store.read, row));
    return { items, next: null };
  }),

  handler(setChannel, async ({ params, body, caller, context }) => {
    const { channel: name } = params;
    const channel = await context.store.transaction(async (tx) => {
      const release = await readyRelease(tx, await knownApp(tx, params.app), body.release);
      return moveChannel(tx, context, { release, name, by: caller.name });
    });
    const message = `channel ${name} of ${channel.appName} points at ${channel.release}`;
    const subject = channelKey(channel.app, name);
    context.live.say({ kind: "channel", subject, install: null, component: null, message });
    context.wake.allInstalls();
    return viewChannel(context.store.read, channel);
  }),
];

export function viewRelease(release: ReleaseRow): ReleaseView {
  const { id, version, state, digest, channel, because, createdAt, requestedBy } = release;
  return {
    id,
    app: release.appName,
    appId: release.app,
    version,
    state,
    digest,
    number: release.number,
    signed: state === "ready",
    channel,
    because,
    components: release.components.map(({ name, type, artifact, reused, job }) => ({
      name,
      type,
      artifact: artifact?.digest ?? null,
      reused,
      job,
    })),
    createdAt: timeOf(createdAt),
    requestedBy,
  };
}

async function viewChannel({ releases }: Readers, channel: ChannelRow): Promise<ChannelView> {
  const release = channel.release === null ? undefined : await releases.get(channel.release);
  const { appName: app, app: appId, name, release: id, movedAt } = channel;
  const version = release?.version ?? null;
  return { app, appId, name, release: id, version, movedAt: timeOf(movedAt) };
}
