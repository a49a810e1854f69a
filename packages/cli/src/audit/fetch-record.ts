// The record from the server, page by page: it is as long as the server is old, and is never held whole.

import {
  type AuditView,
  type Client,
  getCheckpoint,
  listAudit,
  PAGE_ITEMS_MAX,
} from "@exclave/api";
import { AuditRecord } from "@exclave/core";
import type { ExportedRecord } from "./record-files.ts";

/** Up to the size seen first, which a signed checkpoint is not beyond: it grows while it is read. */
export async function fetchRecord(client: Client): Promise<ExportedRecord & { rows: number }> {
  const { checkpoint, trust } = await client.call(getCheckpoint);
  const { size: rows } = await client.call(listAudit, { query: { limit: 1 } });
  return { kind: "exclave.audit.v1", checkpoint, trust, rows, pages: pagesUpTo(client, rows) };
}

async function* pagesUpTo(client: Client, size: number): AsyncIterable<readonly AuditRecord[]> {
  for (let after = 0; after < size; ) {
    const limit = Math.min(PAGE_ITEMS_MAX, size - after);
    const { items } = await client.call(listAudit, { query: { limit, after } });
    const last = items.at(-1);
    // A server that has nothing more to show ends short of what it signed for, and is found out by that.
    if (!last || last.seq <= after) return;
    yield items.map((row) => AuditRecord.parse(row));
    after = last.seq;
  }
}

/** The last so many, oldest first. */
export async function newestRows(
  client: Client,
  { limit, subject }: { readonly limit: number; readonly subject?: string | undefined },
): Promise<AuditView[]> {
  const rows: AuditView[] = [];
  let before: number | undefined;
  do {
    const { items, next } = await client.call(listAudit, {
      query: {
        newest: "true",
        limit: Math.min(PAGE_ITEMS_MAX, limit - rows.length),
        ...(subject === undefined ? {} : { subject }),
        ...(before === undefined ? {} : { before }),
      },
    });
    rows.unshift(...items);
    before = next === null || items.length === 0 ? undefined : Number(next);
  } while (before !== undefined && rows.length < limit);
  return rows;
}
