// Apps, sources, releases, channels and the component types.

import { APP_BYTES_MAX, AppName, ChannelName, Digest, PluginDescriptor } from "@exclave/core";
import { z } from "zod";
import { call } from "../call.ts";
import { ChannelView, PluginView, ReleaseView } from "../resources.ts";
import { get, list, none, nothing, page, post } from "./call-shapes.ts";

/** The text as JSON spells it, and what the vendor's own plugins say of themselves. */
const APP_BODY_BYTES_MAX = 3 * APP_BYTES_MAX;

export const listPlugins = get({
  name: "listPlugins",
  path: "/v1/plugins",
  access: "viewer",
  summary: "Component types and sandboxes this server knows",
  params: none,
  query: page,
  response: list(PluginView).extend({ sandboxes: z.array(z.string()).default([]) }),
});

export const checkApp = post({
  name: "checkApp",
  path: "/v1/apps/check",
  access: "viewer",
  summary: "Checks an exclave.yaml whole against the plugins here",
  params: none,
  body: z.object({
    config: z.string(),
    file: z.string().default("exclave.yaml"),
    plugins: z.record(z.string(), PluginDescriptor).optional(),
  }),
  bodyBytesMax: APP_BODY_BYTES_MAX,
  response: z.object({ app: z.string(), components: z.array(z.string()) }),
});

export const headSource = call({
  name: "headSource",
  method: "GET",
  path: "/v1/sources/:digest/exists",
  access: "operator",
  summary: "Whether a source is there already",
  params: z.object({ digest: Digest }),
  query: none,
  body: nothing,
  response: z.object({ exists: z.boolean() }),
  produces: "json",
  consumes: "nothing",
  status: 200,
});

export const putSource = call({
  name: "putSource",
  method: "PUT",
  path: "/v1/sources/:digest",
  access: "operator",
  summary: "Uploads a source archive (tar) under its digest",
  params: z.object({ digest: Digest }),
  query: none,
  body: z.unknown(),
  response: z.object({ digest: Digest, sizeBytes: z.int() }),
  produces: "json",
  consumes: "bytes",
  status: 201,
});

export const createRelease = post({
  name: "createRelease",
  path: "/v1/releases",
  access: "operator",
  summary: "Builds what changed and writes a signed release",
  params: none,
  body: z.object({
    /** exclave.yaml, as the vendor wrote it. */
    config: z.string(),
    file: z.string().default("exclave.yaml"),
    /** Source digests by component name; `plugin:<type>` for the vendor's own plugins. */
    sources: z.record(z.string(), Digest),
    /** What the vendor's own plugins say of themselves, by type; their images do not exist yet. */
    plugins: z.record(z.string(), PluginDescriptor).optional(),
    version: z.string().min(1).max(80).optional(),
    channel: ChannelName.optional(),
    because: z.string().optional(),
  }),
  bodyBytesMax: APP_BODY_BYTES_MAX,
  response: ReleaseView,
  status: 201,
});

export const listReleases = get({
  name: "listReleases",
  path: "/v1/releases",
  access: "viewer",
  summary: "Releases, newest first",
  params: none,
  query: page.extend({ app: z.string().optional() }),
  response: list(ReleaseView),
});

export const getRelease = get({
  name: "getRelease",
  path: "/v1/releases/:release",
  access: "viewer",
  summary: "One release",
  params: z.object({ release: z.string() }),
  query: none,
  response: ReleaseView,
});

export const listChannels = get({
  name: "listChannels",
  path: "/v1/channels",
  access: "viewer",
  summary: "Channels and the release each points at",
  params: none,
  query: page.extend({ app: z.string().optional() }),
  response: list(ChannelView),
});

export const setChannel = call({
  name: "setChannel",
  method: "PUT",
  path: "/v1/apps/:app/channels/:channel",
  access: "operator",
  summary: "Points a channel at a release",
  params: z.object({ app: AppName, channel: ChannelName }),
  query: none,
  body: z.object({ release: z.string() }),
  response: ChannelView,
  produces: "json",
  consumes: "json",
  status: 200,
});
