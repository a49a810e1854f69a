// Commands on their way to agents, as rows.

import { Audience } from "@exclave/core";
import type { Kysely } from "kysely";
import { OutboxCommand } from "../rows.ts";
import type { Outbox, OutboxRow } from "../store.ts";
import type { Database } from "./database.ts";
import type { Reach } from "./documents.ts";

type Stored = Database["outbox"];

export function createOutbox(
  db: Kysely<Database>,
  { statements, rows }: Pick<Reach, "statements" | "rows">,
): Outbox {
  const of = (audience: Audience) =>
    db.selectFrom("outbox").selectAll().where("audience", "=", audience);

  return {
    async add(audience, body) {
      const text = JSON.stringify(body);
      const row = { audience, seq: null, job: body.job, body: text };
      await statements.run("outbox add", Object.values(row), () =>
        db.insertInto("outbox").values(row),
      );
      rows.keep(nameOf(body), text, body);
    },
    async sent(audience) {
      const { rows: found } = await statements.run<Stored>("outbox sent", [audience], () =>
        of(audience).where("seq", "is not", null).orderBy("seq"),
      );
      return found.map(read);
    },
    async waiting(audience, limit) {
      const values = [audience, limit];
      const { rows: found } = await statements.run<Stored>("outbox waiting", values, () =>
        of(audience).where("seq", "is", null).orderBy("id").limit(limit),
      );
      return found.map(read);
    },
    async assign(id, seq) {
      await statements.run("outbox assign", [seq, id], () =>
        db.updateTable("outbox").set({ seq }).where("id", "=", id),
      );
    },
    async replace(id, body) {
      const set = { job: body.job, body: JSON.stringify(body) };
      await db.updateTable("outbox").set(set).where("id", "=", id).execute();
    },
    async trim(audience, seq) {
      await statements.run("outbox trim", [audience, seq], () =>
        db.deleteFrom("outbox").where("audience", "=", audience).where("seq", "<=", seq),
      );
    },
    async withdraw(job) {
      await db.deleteFrom("outbox").where("job", "=", job).where("seq", "is", null).execute();
    },
    async clear(audience) {
      await db.deleteFrom("outbox").where("audience", "=", audience).execute();
    },
  };

  function read(row: Stored): OutboxRow {
    const { body: _, audience, ...rest } = row;
    return {
      ...rest,
      id: row.id as number,
      audience: Audience.parse(audience),
      body: commandIn(row),
    };
  }

  /** The manifest in it may be large: one that was written here is neither parsed nor checked when it is sent. */
  function commandIn({ job, body }: Stored): OutboxCommand {
    for (const type of COMMAND_TYPES) {
      const known = rows.get(nameOf({ type, job }), body);
      if (known !== undefined) return known as OutboxCommand;
    }
    return OutboxCommand.parse(JSON.parse(body));
  }
}

const COMMAND_TYPES = ["job_offer", "job_cancel"] as const;

function nameOf({ type, job }: { readonly type: OutboxCommand["type"]; readonly job: string }) {
  return `outbox ${type} ${job}`;
}
