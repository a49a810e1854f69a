import { listAudit } from "@exclave/api";
import { type Handler, handler } from "./handler.ts";

export const AUDIT_HANDLERS: readonly Handler[] = [
  handler(listAudit, async ({ query, context }) => {
    const { limit, after = 0, subject, newest } = query;
    const { audit } = context.store.read;
    const items = newest
      ? (await audit.newest(limit, subject)).toReversed()
      : await audit.after(after, limit, subject);
    const { size, head } = await audit.head();
    const last = items.at(-1);
    const next = !newest && last && last.seq < size ? String(last.seq) : null;
    return { items, next, size, head };
  }),
];
