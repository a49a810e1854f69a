// Commands on their way to agents, as rows.

import { Audience } from "@exclave/core";
import type { Kysely } from "kysely";
import { OutboxCommand } from "../rows.ts";
import type { Outbox, OutboxRow } from "../store.ts";
import type { Database } from "./database.ts";

export function createOutbox(db: Kysely<Database>): Outbox {
  const read = (row: Database["outbox"]): OutboxRow => ({
    ...row,
    id: row.id as number,
    audience: Audience.parse(row.audience),
    body: OutboxCommand.parse(JSON.parse(row.body)),
  });
  const of = (audience: Audience) =>
    db.selectFrom("outbox").selectAll().where("audience", "=", audience);

  return {
    async add(audience, body) {
      const row = { audience, seq: null, job: body.job, body: JSON.stringify(body) };
      await db.insertInto("outbox").values(row).execute();
    },
    async sent(audience) {
      return (await of(audience).where("seq", "is not", null).orderBy("seq").execute()).map(read);
    },
    async waiting(audience, limit) {
      const query = of(audience).where("seq", "is", null).orderBy("id").limit(limit);
      return (await query.execute()).map(read);
    },
    async assign(id, seq) {
      await db.updateTable("outbox").set({ seq }).where("id", "=", id).execute();
    },
    async replace(id, body) {
      const set = { job: body.job, body: JSON.stringify(body) };
      await db.updateTable("outbox").set(set).where("id", "=", id).execute();
    },
    async trim(audience, seq) {
      const query = db.deleteFrom("outbox").where("audience", "=", audience);
      await query.where("seq", "<=", seq).execute();
    },
    async withdraw(job) {
      await db.deleteFrom("outbox").where("job", "=", job).where("seq", "is", null).execute();
    },
    async clear(audience) {
      await db.deleteFrom("outbox").where("audience", "=", audience).execute();
    },
  };
}
