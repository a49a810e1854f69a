// Every noun as the stores keep it: its schema, its key, the columns it is looked up by, and the
// look-ups the server needs. Each store brings what rows, outbox and record are kept in.

import type { z } from "zod";
import {
  AgentCheckpointsRow,
  AgentRow,
  AppRow,
  BuildRow,
  ChannelRow,
  ComponentRow,
  ImageRow,
  InstallRow,
  JobRow,
  JoinRow,
  ReleaseRow,
  RestatementRow,
  ShownInstallRow,
  SourceRow,
  TokenRow,
  TrustRow,
} from "./rows.ts";
import {
  channelKey,
  componentKey,
  type Documents,
  type JobQuery,
  type Page,
  type PageOf,
  type Tables,
} from "./store.ts";

export type NounTable =
  | "agents"
  | "agent_checkpoints"
  | "apps"
  | "joins"
  | "tokens"
  | "installs"
  | "shown_installs"
  | "components"
  | "jobs"
  | "releases"
  | "restatements"
  | "builds"
  | "channels"
  | "images"
  | "sources"
  | "trust";

/** Nouns of which no two rows have the same name. */
export const ONE_NAME_EACH: readonly NounTable[] = ["apps", "installs"];

/** Statuses of a job that is not over. */
export const OPEN_STATUSES = ["queued", "offered", "accepted", "running"] as const;

export type Columns = Readonly<Record<string, string | readonly string[] | null | undefined>>;

/** Rows by key, found by their columns as well. */
export interface IndexedDocuments<Row> extends Documents<Row> {
  list(page: Page, filter?: Columns): Promise<PageOf<Row>>;
  where(filter: Columns): Promise<Row[]>;
  /** Of those, the rows whose `state` is one of a job that is not over. */
  whereOpen(filter: Columns): Promise<Row[]>;
  first(filter: Columns): Promise<Row | undefined>;
  count(filter: Columns): Promise<number>;
}

export interface TableParts
  extends Pick<Tables, "outbox" | "audit" | "nextIssueNo" | "raiseIssueNo"> {
  readonly documents: <Row>(
    table: NounTable,
    schema: z.ZodType<Row>,
    columnsOf: (row: Row) => { readonly key: string } & Columns,
    options?: NounOptions,
  ) => IndexedDocuments<Row>;
}

export interface NounOptions {
  /** The columns that a later write of the same row may change; all unless given. */
  readonly changing?: readonly string[];
}

/** Of rows that are written often: an index over a column that never changes is left alone. */
const FIXED: NounOptions = { changing: [] };

export function createTables(parts: TableParts): Tables {
  const { documents, outbox, audit, nextIssueNo, raiseIssueNo } = parts;
  const agents = documents(
    "agents",
    AgentRow,
    ({ id, audience }) => ({ key: id, audience }),
    FIXED,
  );
  const agentCheckpoints = documents("agent_checkpoints", AgentCheckpointsRow, ({ agent }) => ({
    key: agent,
  }));
  const joins = documents("joins", JoinRow, ({ hash }) => ({ key: hash }));
  const tokens = documents("tokens", TokenRow, ({ id, hash }) => ({ key: id, hash }));
  const apps = documents("apps", AppRow, ({ id, name }) => ({ key: id, name }));
  const installs = documents("installs", InstallRow, ({ id, name }) => ({ key: id, name }), FIXED);
  const shownInstalls = documents("shown_installs", ShownInstallRow, ({ install }) => ({
    key: install,
  }));
  const components = documents(
    "components",
    ComponentRow,
    ({ install, name }) => ({ key: componentKey(install, name), install }),
    FIXED,
  );
  const jobs = documents(
    "jobs",
    JobRow,
    (job) => ({
      key: job.id,
      audience: job.audience,
      install: job.install,
      component: job.component,
      release: job.release,
      state: job.state.status,
    }),
    { changing: ["state"] },
  );
  const releases = documents("releases", ReleaseRow, ({ id, app, version, state }) => ({
    key: id,
    app,
    version,
    state,
  }));
  const restatements = documents("restatements", RestatementRow, ({ release }) => ({
    key: release,
  }));
  const builds = documents("builds", BuildRow, ({ buildKey }) => ({ key: buildKey }));
  const channels = documents("channels", ChannelRow, ({ app, name }) => ({
    key: channelKey(app, name),
    app,
  }));
  const images = documents("images", ImageRow, ({ kind, name }) => ({
    key: `${kind}/${name}`,
    kind,
  }));
  const sources = documents("sources", SourceRow, ({ digest }) => ({ key: digest }));
  const trust = documents("trust", TrustRow, ({ version }) => ({ key: String(version) }));

  return {
    agents: { ...agents, byAudience: (audience) => agents.first({ audience }) },
    agentCheckpoints,
    joins,
    tokens: { ...tokens, byHash: (hash) => tokens.first({ hash }) },
    apps: { ...apps, byName: (name) => apps.first({ name }) },
    installs: { ...installs, byName: (name) => installs.first({ name }) },
    shownInstalls,
    components: { ...components, ofInstall: (install) => components.where({ install }) },
    jobs: {
      ...jobs,
      open: (audience) => jobs.whereOpen({ audience }),
      openOfInstall: (install) => jobs.whereOpen({ install }),
      find: ({ install, audience, component, state, release, ...page }: JobQuery) =>
        jobs.list(page, { install, audience, component, state, release }),
    },
    outbox,
    releases: {
      ...releases,
      building: () => releases.where({ state: "building" }),
      ofApp: (app, page) => releases.list(page, { app }),
      byVersion: (app, version) => releases.first({ app, version }),
      count: (app) => releases.count({ app }),
    },
    restatements,
    builds,
    channels: { ...channels, of: (app, name) => channels.get(channelKey(app, name)) },
    images: { ...images, ofKind: (kind) => images.where({ kind }) },
    sources,
    trust,
    audit,
    nextIssueNo,
    raiseIssueNo,
  };
}
