import {
  createJoin,
  getInfo,
  joinAgent,
  LINK_PROTOCOL,
  listAgents,
  listPlugins,
} from "@exclave/api";
import { joinAgent as join, createJoin as makeJoin } from "../joins.ts";
import { type Handler, handler } from "./handler.ts";

export const AGENT_HANDLERS: readonly Handler[] = [
  handler(getInfo, async ({ context: { version, startedAt } }) => ({
    name: "exclave" as const,
    version,
    protocol: LINK_PROTOCOL,
    startedAt,
  })),

  handler(joinAgent, ({ body, context }) => join(context, body)),

  handler(createJoin, ({ body, caller, context }) =>
    context.store.transaction((tx) =>
      makeJoin(tx, context, { kind: body.kind, audience: body.kind, by: caller.name }),
    ),
  ),

  handler(listAgents, async ({ query, context: { store, presence } }) => {
    const { items, next } = await store.read.agents.list(query);
    const views = items.map(async ({ id, kind, audience, version, platform, runtime, seenAt }) => ({
      id,
      kind,
      audience,
      status: presence.isOnline(audience) ? ("online" as const) : ("offline" as const),
      since: seenAt,
      version,
      platform,
      runtime,
      openJobs: (await store.read.jobs.open(audience)).length,
    }));
    return { items: await Promise.all(views), next };
  }),

  handler(listPlugins, async ({ context }) => {
    const images = await context.store.read.images.ofKind("plugin");
    const items = images.flatMap(({ name, digest, repository, descriptor }) =>
      descriptor ? [{ type: descriptor.type ?? name, digest, repository, descriptor }] : [],
    );
    return { items, next: null };
  }),
];
