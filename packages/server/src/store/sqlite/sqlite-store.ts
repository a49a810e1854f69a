// The store in one SQLite file.

import { ServerCommand } from "@exclave/api";
import {
  type AuditEntry,
  type AuditHead,
  AuditRecord,
  appendAudit,
  EMPTY_CHAIN,
} from "@exclave/core";
import { Kysely, sql } from "kysely";
import {
  AgentRow,
  BuildRow,
  ChannelRow,
  ComponentRow,
  ImageRow,
  InstallRow,
  JobRow,
  JoinRow,
  ReleaseRow,
  SourceRow,
  TokenRow,
} from "../rows.ts";
import {
  type Audit,
  channelKey,
  componentKey,
  type JobQuery,
  type Outbox,
  type OutboxRow,
  type Store,
  type Tables,
} from "../store.ts";
import { createDocuments, type Database } from "./documents.ts";
import { migrate } from "./migrations.ts";
import { createSqliteDialect, openDatabase } from "./sqlite-dialect.ts";

export function openSqliteStore(file: string): Store {
  const database = openDatabase(file);
  try {
    migrate(database);
  } catch (reason) {
    database.close();
    throw reason;
  }
  const db = new Kysely<Database>({ dialect: createSqliteDialect(database) });

  return {
    read: createTables(db),
    transaction: (work) => db.transaction().execute((tx) => work(createTables(tx))),
    close: () => db.destroy(),
  };
}

const OPEN_STATES = ["queued", "offered", "accepted", "running"];

function createTables(db: Kysely<Database>): Tables {
  const agents = createDocuments(db, "agents", AgentRow, ({ id, audience }) => ({
    key: id,
    audience,
  }));
  const joins = createDocuments(db, "joins", JoinRow, ({ hash }) => ({ key: hash }));
  const tokens = createDocuments(db, "tokens", TokenRow, ({ id, hash }) => ({ key: id, hash }));
  const installs = createDocuments(db, "installs", InstallRow, ({ name }) => ({ key: name }));
  const components = createDocuments(db, "components", ComponentRow, ({ install, name }) => ({
    key: componentKey(install, name),
    install,
  }));
  const jobs = createDocuments(db, "jobs", JobRow, (job) => ({
    key: job.id,
    audience: job.audience,
    install: job.install,
    component: job.component,
    release: job.release,
    state: job.state.status,
  }));
  const releases = createDocuments(db, "releases", ReleaseRow, ({ id, app, version, state }) => ({
    key: id,
    app,
    version,
    state,
  }));
  const builds = createDocuments(db, "builds", BuildRow, ({ buildKey }) => ({ key: buildKey }));
  const channels = createDocuments(db, "channels", ChannelRow, ({ app, name }) => ({
    key: channelKey(app, name),
    app,
  }));
  const images = createDocuments(db, "images", ImageRow, ({ kind, name }) => ({
    key: `${kind}/${name}`,
    kind,
  }));
  const sources = createDocuments(db, "sources", SourceRow, ({ digest }) => ({ key: digest }));

  return {
    agents: { ...agents, byAudience: (audience) => agents.first({ audience }) },
    joins,
    tokens: { ...tokens, byHash: (hash) => tokens.first({ hash }) },
    installs,
    components: { ...components, ofInstall: (install) => components.where({ install }) },
    jobs: {
      ...jobs,
      open: (audience) => jobs.where({ audience, state: OPEN_STATES }),
      find: ({ install, component, state, release, ...page }: JobQuery) =>
        jobs.list(page, { audience: install, component, state, release }),
    },
    outbox: createOutbox(db),
    releases: {
      ...releases,
      building: () => releases.where({ state: "building" }),
      ofApp: (app, page) => releases.list(page, { app }),
      byVersion: (app, version) => releases.first({ app, version }),
      count: async (app) => (await releases.where({ app })).length,
    },
    builds,
    channels: { ...channels, of: (app, name) => channels.get(channelKey(app, name)) },
    images: { ...images, ofKind: (kind) => images.where({ kind }) },
    sources,
    audit: createAudit(db),
    nextIssueNo: async (audience) => {
      const { rows } = await sql<{ number: number }>`
        INSERT INTO issues (audience, number) VALUES (${audience}, 1)
        ON CONFLICT (audience) DO UPDATE SET number = number + 1 RETURNING number`.execute(db);
      return rows[0]?.number ?? 1;
    },
  };
}

function createOutbox(db: Kysely<Database>): Outbox {
  const read = (row: Database["outbox"]): OutboxRow => ({
    ...row,
    id: row.id as number,
    body: ServerCommand.parse(JSON.parse(row.body)),
  });
  const of = (audience: string) =>
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

function createAudit(db: Kysely<Database>): Audit {
  const read = ({ prev_hash: prevHash, details, ...row }: Database["audit"]): AuditRecord =>
    AuditRecord.parse({ ...row, prevHash, details: JSON.parse(details) });
  const select = (subject?: string) => {
    const query = db.selectFrom("audit").selectAll();
    return subject === undefined ? query : query.where("subject", "=", subject);
  };

  return { append, head, after, newest };

  async function append(entry: AuditEntry): Promise<AuditRecord> {
    // What JSON cannot carry would change the hash on the way back.
    const details = JSON.parse(JSON.stringify(entry.details)) as AuditEntry["details"];
    const record = appendAudit(await head(), { ...entry, details });
    const { prevHash: prev_hash, ...row } = record;
    await db
      .insertInto("audit")
      .values({ ...row, prev_hash, details: JSON.stringify(details) })
      .execute();
    return record;
  }

  async function head(): Promise<AuditHead> {
    const query = db.selectFrom("audit").select(["seq", "hash"]).orderBy("seq", "desc").limit(1);
    const row = await query.executeTakeFirst();
    return row ? { size: row.seq, head: row.hash } : EMPTY_CHAIN;
  }

  async function after(seq: number, limit: number, subject?: string): Promise<AuditRecord[]> {
    const query = select(subject).where("seq", ">", seq).orderBy("seq").limit(limit);
    return (await query.execute()).map(read);
  }

  async function newest(limit: number, subject?: string): Promise<AuditRecord[]> {
    return (await select(subject).orderBy("seq", "desc").limit(limit).execute()).map(read);
  }
}
