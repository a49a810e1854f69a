import {
  createJoin,
  getInfo,
  joinAgent,
  LINK_PROTOCOL,
  listAgents,
  listPlugins,
  revokeAgent,
  timeOf,
} from "@exclave/api";
import { Failure } from "@exclave/core";
import { revokeAgent as revoke } from "../access/revoke-agent.ts";
import { joinAgent as join, createJoin as makeJoin } from "../joins.ts";
import { type Handler, handler } from "./handler.ts";
import { inTurns } from "./in-turns.ts";

export const AGENT_HANDLERS: readonly Handler[] = [
  handler(getInfo, async ({ context: { version, startedAt } }) => ({
    name: "exclave" as const,
    version,
    protocol: LINK_PROTOCOL,
    startedAt: timeOf(startedAt),
  })),

  handler(joinAgent, ({ body, context }) => join(context, body)),

  handler(createJoin, async ({ body, caller, context }) => {
    const { joinString, expiresAt } = await context.store.transaction((tx) =>
      makeJoin(tx, context, { kind: body.kind, audience: body.kind, by: caller.name }),
    );
    return { joinString, expiresAt: timeOf(expiresAt) };
  }),

  handler(listAgents, async ({ query, charge, context: { store, presence } }) => {
    const { items, next } = await store.read.agents.list(query);
    const views = await inTurns(
      items,
      charge,
      async ({ id, kind, audience, installName, version, platform, runtime, ...row }) => ({
        id,
        kind,
        audience,
        install: installName,
        status: presence.isOnline(audience) ? ("online" as const) : ("offline" as const),
        since: timeOf(row.seenAt),
        version,
        platform,
        runtime,
        openJobs: (await store.read.jobs.open(audience)).length,
        revokedAt: timeOf(row.revokedAt),
      }),
    );
    return { items: views, next };
  }),

  handler(revokeAgent, async ({ params, body, caller, context }) => {
    const asked = { agent: params.agent, by: caller.name, because: body.because };
    const { id, audience, revokedAt } = await revoke(context, asked);
    if (revokedAt === null) throw new Failure("bug", `agent ${id} was not revoked`);
    return { id, audience, revokedAt: timeOf(revokedAt) };
  }),

  handler(listPlugins, async ({ context }) => {
    const images = await context.store.read.images.ofKind("plugin");
    const items = images.flatMap(({ name, digest, repository, descriptor }) =>
      descriptor ? [{ type: descriptor.type ?? name, digest, repository, descriptor }] : [],
    );
    const sandboxes = await context.store.read.images.ofKind("sandbox");
    return { items, next: null, sandboxes: sandboxes.map(({ name }) => name) };
  }),
];
