// Every REST call of `/v1`.

import {
  AppName,
  ChannelName,
  ComponentName,
  Digest,
  InstallName,
  PluginDescriptor,
} from "@exclave/core";
import { z } from "zod";
import { type Access, type Call, call } from "./call.ts";
import { JoinRequest, JoinResponse } from "./join.ts";
import {
  AgentView,
  AuditView,
  ChannelView,
  InstallView,
  JobStatus,
  JobView,
  LiveEvent,
  PluginView,
  ReleaseView,
  Role,
  TokenView,
} from "./resources.ts";

const none = z.object({});
const nothing = z.undefined();
const list = <Item extends z.ZodType>(item: Item) =>
  z.object({ items: z.array(item), next: z.string().nullable() });
const page = z.object({
  limit: z.coerce.number().int().min(1).max(1000).default(100),
  cursor: z.string().optional(),
});

interface Shape<P extends z.ZodObject, Q extends z.ZodObject, R extends z.ZodType> {
  readonly name: string;
  readonly path: string;
  readonly access: Access;
  readonly summary: string;
  readonly params: P;
  readonly query: Q;
  readonly response: R;
}

function get<P extends z.ZodObject, Q extends z.ZodObject, R extends z.ZodType>(
  shape: Shape<P, Q, R>,
) {
  return call({
    ...shape,
    method: "GET",
    body: nothing,
    produces: "json",
    consumes: "nothing",
    status: 200,
  });
}

function post<P extends z.ZodObject, B extends z.ZodType, R extends z.ZodType>(
  shape: Omit<Shape<P, typeof none, R>, "query"> & { readonly body: B; readonly status?: number },
) {
  return call({
    status: 200,
    ...shape,
    method: "POST",
    query: none,
    produces: "json",
    consumes: "json",
  });
}

const Install = z.object({ install: InstallName });
const Job = z.object({ job: z.string() });

export const getInfo = get({
  name: "getInfo",
  path: "/v1/info",
  access: "public",
  summary: "Which server this is",
  params: none,
  query: none,
  response: z.object({
    name: z.literal("exclave"),
    version: z.string(),
    protocol: z.string(),
    startedAt: z.int(),
  }),
});

export const getReleaseKey = call({
  name: "getReleaseKey",
  method: "GET",
  path: "/v1/keys/release",
  access: "public",
  summary: "The public key that releases are signed with, as PEM: for `cosign verify --key`",
  params: none,
  query: none,
  body: nothing,
  response: z.string(),
  produces: "bytes",
  consumes: "nothing",
  status: 200,
});

export const joinAgent = post({
  name: "joinAgent",
  path: "/v1/agents/join",
  access: "public",
  summary: "Turns a single-use join secret into an agent",
  params: none,
  body: JoinRequest,
  response: JoinResponse,
  status: 201,
});
export const listAgents = get({
  name: "listAgents",
  path: "/v1/agents",
  access: "viewer",
  summary: "Agents and whether they are connected",
  params: none,
  query: page,
  response: list(AgentView),
});

export const listPlugins = get({
  name: "listPlugins",
  path: "/v1/plugins",
  access: "viewer",
  summary: "Component types this server knows",
  params: none,
  query: page,
  response: list(PluginView),
});

export const headSource = call({
  name: "headSource",
  method: "GET",
  path: "/v1/sources/:digest/exists",
  access: "operator",
  summary: "Whether a source is there already",
  params: z.object({ digest: Digest }),
  query: none,
  body: nothing,
  response: z.object({ exists: z.boolean() }),
  produces: "json",
  consumes: "nothing",
  status: 200,
});
export const putSource = call({
  name: "putSource",
  method: "PUT",
  path: "/v1/sources/:digest",
  access: "operator",
  summary: "Uploads a source archive (tar) under its digest",
  params: z.object({ digest: Digest }),
  query: none,
  body: z.unknown(),
  response: z.object({ digest: Digest, sizeBytes: z.int() }),
  produces: "json",
  consumes: "bytes",
  status: 201,
});

export const createRelease = post({
  name: "createRelease",
  path: "/v1/releases",
  access: "operator",
  summary: "Builds what changed and writes a signed release",
  params: none,
  body: z.object({
    /** exclave.yaml, as the vendor wrote it. */
    config: z.string(),
    file: z.string().default("exclave.yaml"),
    /** Source digests by component name; `plugin:<type>` for the vendor's own plugins. */
    sources: z.record(z.string(), Digest),
    /** What the vendor's own plugins say of themselves, by type; their images do not exist yet. */
    plugins: z.record(z.string(), PluginDescriptor).optional(),
    version: z.string().min(1).max(80).optional(),
    channel: ChannelName.optional(),
    because: z.string().optional(),
  }),
  response: ReleaseView,
  status: 201,
});
export const listReleases = get({
  name: "listReleases",
  path: "/v1/releases",
  access: "viewer",
  summary: "Releases, newest first",
  params: none,
  query: page.extend({ app: z.string().optional() }),
  response: list(ReleaseView),
});
export const getRelease = get({
  name: "getRelease",
  path: "/v1/releases/:release",
  access: "viewer",
  summary: "One release",
  params: z.object({ release: z.string() }),
  query: none,
  response: ReleaseView,
});
export const checkApp = post({
  name: "checkApp",
  path: "/v1/apps/check",
  access: "viewer",
  summary: "Checks an exclave.yaml whole against the plugins here",
  params: none,
  body: z.object({
    config: z.string(),
    file: z.string().default("exclave.yaml"),
    plugins: z.record(z.string(), PluginDescriptor).optional(),
  }),
  response: z.object({ app: z.string(), components: z.array(z.string()) }),
});

export const listChannels = get({
  name: "listChannels",
  path: "/v1/channels",
  access: "viewer",
  summary: "Channels and the release each points at",
  params: none,
  query: page.extend({ app: z.string().optional() }),
  response: list(ChannelView),
});
export const setChannel = call({
  name: "setChannel",
  method: "PUT",
  path: "/v1/apps/:app/channels/:channel",
  access: "operator",
  summary: "Points a channel at a release",
  params: z.object({ app: AppName, channel: ChannelName }),
  query: none,
  body: z.object({ release: z.string() }),
  response: ChannelView,
  produces: "json",
  consumes: "json",
  status: 200,
});

export const createInstall = post({
  name: "createInstall",
  path: "/v1/installs",
  access: "operator",
  summary: "Creates an install and sets it up",
  params: none,
  body: z.object({
    name: InstallName,
    app: AppName,
    channel: ChannelName.default("stable" as ChannelName),
    sandbox: z.string().default("local"),
    inputs: z.record(z.string(), z.unknown()).default({}),
    /** Where the local sandbox puts the install; the server's default otherwise. */
    directory: z.string().optional(),
  }),
  response: InstallView,
  status: 201,
});
export const listInstalls = get({
  name: "listInstalls",
  path: "/v1/installs",
  access: "viewer",
  summary: "Installs",
  params: none,
  query: page,
  response: list(InstallView),
});
export const getInstall = get({
  name: "getInstall",
  path: "/v1/installs/:install",
  access: "viewer",
  summary: "One install: what is wanted, what is there, what it waits for",
  params: Install,
  query: none,
  response: InstallView,
});
export const deployInstall = post({
  name: "deployInstall",
  path: "/v1/installs/:install/deploy",
  access: "operator",
  summary: "Asks for a release, a retry, or the removal of components no longer wanted",
  params: Install,
  body: z.object({
    release: z.string().optional(),
    channel: ChannelName.optional(),
    inputs: z.record(z.string(), z.unknown()).optional(),
    allowDestroy: z.array(ComponentName).default([]),
    retry: z.boolean().default(true),
  }),
  response: InstallView,
});
export const destroyInstall = post({
  name: "destroyInstall",
  path: "/v1/installs/:install/destroy",
  access: "operator",
  summary: "Takes everything down in reverse order, then the sandbox",
  params: Install,
  body: z.object({ because: z.string().default("asked for") }),
  response: InstallView,
});
export const forgetInstall = call({
  name: "forgetInstall",
  method: "DELETE",
  path: "/v1/installs/:install",
  access: "admin",
  summary: "Drops the server's rows of an install and touches nothing in the customer's account",
  params: Install,
  query: z.object({ force: z.stringbool().default(false) }),
  body: nothing,
  response: z.object({ forgotten: z.string(), note: z.string() }),
  produces: "json",
  consumes: "nothing",
  status: 200,
});
export const runInInstall = post({
  name: "runInInstall",
  path: "/v1/installs/:install/components/:component/jobs",
  access: "operator",
  summary: "Log requests and debug commands, as jobs",
  params: Install.extend({ component: ComponentName }),
  body: z.discriminatedUnion("operation", [
    z.object({
      operation: z.literal("logs"),
      tailLines: z.int().min(0).max(100_000).default(200),
      follow: z.boolean().default(false),
      seconds: z.int().min(1).max(3600).optional(),
    }),
    z.object({
      operation: z.literal("exec"),
      command: z.array(z.string()).min(1),
      timeoutSeconds: z.int().min(1).max(3600).default(60),
    }),
    z.object({ operation: z.literal("status") }),
  ]),
  response: JobView,
  status: 201,
});

export const listJobs = get({
  name: "listJobs",
  path: "/v1/jobs",
  access: "viewer",
  summary: "Jobs, newest first",
  params: none,
  query: page.extend({
    install: z.string().optional(),
    component: z.string().optional(),
    state: JobStatus.optional(),
    release: z.string().optional(),
  }),
  response: list(JobView),
});
export const getJob = get({
  name: "getJob",
  path: "/v1/jobs/:job",
  access: "viewer",
  summary: "One job",
  params: Job,
  query: none,
  response: JobView,
});
export const cancelJob = post({
  name: "cancelJob",
  path: "/v1/jobs/:job/cancel",
  access: "operator",
  summary: "Asks a job to stop",
  params: Job,
  body: z.object({ graceMs: z.int().min(0).max(600_000).default(10_000) }),
  response: JobView,
});
export const getJobLog = call({
  name: "getJobLog",
  method: "GET",
  path: "/v1/jobs/:job/log",
  access: "viewer",
  summary: "A job's log from an offset; with `follow`, until the job has ended and all is there",
  params: Job,
  query: z.object({
    from: z.coerce.number().int().min(0).default(0),
    follow: z.stringbool().default(false),
  }),
  body: nothing,
  response: z.unknown(),
  produces: "bytes",
  consumes: "nothing",
  status: 200,
});

export const listAudit = get({
  name: "listAudit",
  path: "/v1/audit",
  access: "viewer",
  summary: "The record, oldest first from `after`",
  params: none,
  query: z.object({
    limit: z.coerce.number().int().min(1).max(5000).default(200),
    after: z.coerce.number().int().min(0).optional(),
    subject: z.string().optional(),
    newest: z.stringbool().default(false),
  }),
  response: z.object({
    items: z.array(AuditView),
    next: z.string().nullable(),
    size: z.int(),
    head: z.string(),
  }),
});

export const listTokens = get({
  name: "listTokens",
  path: "/v1/tokens",
  access: "admin",
  summary: "API tokens, never their values",
  params: none,
  query: page,
  response: list(TokenView),
});
export const createToken = post({
  name: "createToken",
  path: "/v1/tokens",
  access: "admin",
  summary: "Makes a token; its value is shown this once",
  params: none,
  body: z.object({
    name: z.string().min(1).max(80),
    role: Role,
    expiresInSeconds: z.int().positive().optional(),
  }),
  response: TokenView.extend({ token: z.string() }),
  status: 201,
});
export const revokeToken = call({
  name: "revokeToken",
  method: "DELETE",
  path: "/v1/tokens/:token",
  access: "admin",
  summary: "Revokes a token",
  params: z.object({ token: z.string() }),
  query: none,
  body: nothing,
  response: TokenView,
  produces: "json",
  consumes: "nothing",
  status: 200,
});

export const createJoin = post({
  name: "createJoin",
  path: "/v1/joins",
  access: "admin",
  summary: "Makes a single-use join string for a build or setup agent",
  params: none,
  body: z.object({ kind: z.enum(["build", "setup"]) }),
  response: z.object({ joinString: z.string(), expiresAt: z.int() }),
  status: 201,
});

export const watchEvents = call({
  name: "watchEvents",
  method: "GET",
  path: "/v1/events",
  access: "viewer",
  summary: "What is live, as server-sent events",
  params: none,
  query: z.object({ install: z.string().optional(), after: z.coerce.number().int().optional() }),
  body: nothing,
  response: LiveEvent,
  produces: "events",
  consumes: "nothing",
  status: 200,
});

export const CALLS: readonly Call[] = [
  getInfo,
  getReleaseKey,
  joinAgent,
  listAgents,
  listPlugins,
  headSource,
  putSource,
  createRelease,
  listReleases,
  getRelease,
  checkApp,
  listChannels,
  setChannel,
  createInstall,
  listInstalls,
  getInstall,
  deployInstall,
  destroyInstall,
  forgetInstall,
  runInInstall,
  listJobs,
  getJob,
  cancelJob,
  getJobLog,
  listAudit,
  listTokens,
  createToken,
  revokeToken,
  createJoin,
  watchEvents,
];
