import { getCheckpoint, listAudit } from "@exclave/api";
import { type Handler, handler } from "./handler.ts";

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

  handler(getCheckpoint, async ({ context: { checkpoints, trust } }) => {
    const { envelope } = await checkpoints.latest();
    return { checkpoint: envelope, trust: trust.after(0).map((version) => version.envelope) };
  }),
];
