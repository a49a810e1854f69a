import { getCheckpoint, listAudit } from "@exclave/api";
import { type Handler, handler } from "./handler.ts";

export const AUDIT_HANDLERS: readonly Handler[] = [
  handler(listAudit, async ({ query, context }) => {
    const { limit, after = 0, newest } = query;
    const { audit, installs } = context.store.read;
    // The record names installs by id; people may say the name of one that is there.
    const named = query.subject === undefined ? undefined : await installs.byName(query.subject);
    const subject = named?.id ?? query.subject;
    const items = newest
      ? (await audit.newest(limit, subject)).toReversed()
      : await audit.after(after, limit, subject);
    const { size, head } = await audit.head();
    const last = items.at(-1);
    const next = !newest && last && last.seq < size ? String(last.seq) : null;
    return { items, next, size, head };
  }),

  handler(getCheckpoint, async ({ context: { checkpoints, trust } }) => {
    const { envelope } = await checkpoints.latest();
    return { checkpoint: envelope, trust: trust.after(0).map((version) => version.envelope) };
  }),
];
