import { getCheckpoint, listAudit, listCheckpoints, timeOf } from "@exclave/api";
import { knownInstall } from "../install/known-install.ts";
import type { AgentRow } from "../store/rows.ts";
import type { Store } from "../store/store.ts";
import { type Handler, handler } from "./handler.ts";
import { inTurns } from "./in-turns.ts";

export const AUDIT_HANDLERS: readonly Handler[] = [
  handler(listAudit, async ({ query, context }) => {
    const { limit, after = 0, before, newest } = query;
    const { audit, installs } = context.store.read;
    // The record names installs by id; people may say the name of one that is there.
    const named = query.subject === undefined ? undefined : await installs.byName(query.subject);
    const subject = named?.id ?? query.subject;
    const items = newest
      ? (await audit.newest(limit, { subject, before })).toReversed()
      : await audit.after(after, limit, subject);
    const { size, head } = await audit.head();
    const edge = newest ? items[0] : items.at(-1);
    const isLast = edge === undefined || edge.seq === (newest ? 1 : size);
    return { items, next: isLast ? null : String(edge.seq), size, head };
  }),

  handler(listCheckpoints, async ({ query, charge, context }) => {
    const { store, presence, agentCheckpoints } = context;
    const { install, ...page } = query;
    const { items, next } =
      install === undefined
        ? await store.read.agents.list(page)
        : { items: await agentOf(store, install), next: null };
    await agentCheckpoints.ask(items);
    const views = await inTurns(items, charge, async ({ id, audience, installName }) => {
      const row = await store.read.agentCheckpoints.get(id);
      return {
        agent: id,
        install: installName,
        status: presence.isOnline(audience) ? ("online" as const) : ("offline" as const),
        at: timeOf(row?.at ?? null),
        checkpoints: row?.checkpoints ?? [],
      };
    });
    return { items: views, next };
  }),

  handler(getCheckpoint, async ({ context: { checkpoints, trust } }) => {
    const { envelope } = await checkpoints.latest();
    return { checkpoint: envelope, trust: trust.after(0).map((version) => version.envelope) };
  }),
];

async function agentOf({ read }: Store, install: string): Promise<AgentRow[]> {
  const { id } = await knownInstall(read, install);
  const agent = await read.agents.byAudience(id);
  return agent ? [agent] : [];
}
