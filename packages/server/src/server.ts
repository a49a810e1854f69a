// The control plane, put together: store, link, loops, REST and registry in one process on one port.

import type { AddressInfo } from "node:net";
import { resolve } from "node:path";
import { createSystemTimers } from "@exclave/api";
import { Failure, InstallId, Instant, refusePlainHttp } from "@exclave/core";
import { writeDurably } from "@exclave/machine";
import { createRegistryFiles, LISTEN_LIMITS, type ListenLimits, type Registry } from "@exclave/oci";
import type { Logger } from "pino";
import { createFailedLogins } from "./access/failed-logins.ts";
import { flushRepeats } from "./access/note-refusal.ts";
import { createRepeats } from "./access/repeats.ts";
import { createAgentCheckpoints } from "./audit/agent-checkpoints.ts";
import { openCheckpoints } from "./audit/checkpoints.ts";
import { shownSizeIn } from "./audit/shown-size.ts";
import type { ServerContext } from "./context.ts";
import { claimDataDirectory, type DataDirectory } from "./data-directory.ts";
import { newSecret } from "./identifiers.ts";
import { reconcileInstall } from "./install/install-loop.ts";
import { createFollowers, FOLLOWER_GRACE_MS, stopAbandoned } from "./job/followers.ts";
import { createJobLogs } from "./job/job-logs.ts";
import { loadKeys, readIfThere } from "./keys.ts";
import { closeLeftLogs } from "./link/close-log.ts";
import { createLinkEndpoint } from "./link/link-endpoint.ts";
import { createLiveEvents } from "./live-events.ts";
import { createMetrics } from "./metrics/metrics.ts";
import { createReconcileLoop } from "./reconcile-loop.ts";
import { createAppChecker } from "./release/app-checker.ts";
import { createAppReader } from "./release/app-of-release.ts";
import { reconcileReleases } from "./release/release-loop.ts";
import { renewStatements } from "./release/renew-statements.ts";
import { createRestServer } from "./rest/rest-server.ts";
import { tokenRow } from "./rest/tokens.ts";
import { startRetention } from "./retention/retention.ts";
import type { RetentionSettings } from "./retention/retention-rules.ts";
import { startSignerProcess } from "./signer/open-signer.ts";
import type { Signer } from "./signer/signer.ts";
import { openStore } from "./store/open-store.ts";
import type { Store } from "./store/store.ts";
import { planListener, type TlsSettings } from "./tls/listener-tls.ts";
import { openListener } from "./tls/open-listener.ts";
import { openTrust, type Trust } from "./trust/trust.ts";
import { createVendorRegistry } from "./vendor-registry.ts";

export const SERVER_VERSION = "0.1.0";
const PING_MS = 10_000;
const FLUSH_EVERY_MS = 15_000;
const RENEW_EVERY_MS = 60 * 60_000;

export interface ServerOptions {
  readonly data: string;
  /** Of a PostgreSQL database; a file in the data directory unless given. */
  readonly databaseUrl?: string;
  readonly host: string;
  readonly port: number;
  /** How agents and people reach it; its own address unless given. */
  readonly publicUrl?: string;
  readonly log: Logger;
  readonly now?: () => number;
  readonly pingMs?: number;
  /** Who signs with the keys in that directory; a process of its own unless given. */
  readonly openSigner?: (keys: string) => Signer | Promise<Signer>;
  /** More of a job's log than this is not kept. */
  readonly logBytesMax?: number;
  /** Plain HTTP beyond loopback was asked for in so many words. */
  readonly insecureHttp?: boolean;
  /** By its own authority beyond loopback, and plain on it, unless said. */
  readonly tls?: TlsSettings;
  /** What a peer may take; those of every listener unless said. */
  readonly limits?: Partial<ListenLimits>;
  /** How long things are kept; the defaults unless said. */
  readonly retention?: Partial<RetentionSettings>;
  /** How long a log request or a debug command goes on without a reader. */
  readonly followerGraceMs?: number;
}

export interface RunningServer {
  /** How agents and people reach it. */
  readonly url: string;
  /** Where it listens. */
  readonly listening: string;
  readonly context: ServerContext;
  /** Looks at once whether the listener is to have another certificate. */
  lookAtCertificate(): Promise<void>;
  close(): Promise<void>;
}

export async function startServer(options: ServerOptions): Promise<RunningServer> {
  const { insecureHttp = false, publicUrl } = options;
  planListener(options);
  if (publicUrl !== undefined) refusePlainHttp(publicUrl, insecureHttp);
  const directory = await claimDataDirectory(resolve(options.data));
  try {
    return await startOn(directory, options);
  } catch (reason) {
    directory.release();
    throw reason;
  }
}

async function startOn(directory: DataDirectory, options: ServerOptions): Promise<RunningServer> {
  const { log } = options;
  const now = () => Instant.parse((options.now ?? Date.now)());
  const keys = await loadKeys(directory.keys);
  const store = await openStore(directory.database, options.databaseUrl);
  const openSigner = options.openSigner ?? ((place) => startSignerProcess(place, { log }));
  const signer = await openSigner(directory.keys);
  // Before anything is appended: this is what was there.
  const checkpoints = await openCheckpoints({
    store,
    trust: () => context.trust,
    now,
    shownSize: shownSizeIn(directory.shownSize),
  });
  await ensureAdminToken(store, directory.adminToken, now);

  const timers = createSystemTimers();
  const listener = await openListener({
    plan: planListener(options),
    host: options.host,
    publicUrl: options.publicUrl,
    keys: directory.keys,
    now,
    timers,
    log,
  });
  let url = options.publicUrl;
  let listening = "";
  let trust: Trust | undefined;
  const apps = createAppChecker();
  const readApp = createAppReader();
  const releases = createReconcileLoop({
    reconcile: () =>
      context.metrics.reconciling("releases", async () => {
        await reconcileReleases(context, readApp);
        const until = await renewStatements(context, readApp);
        if (until !== undefined) releases.markAt("releases", until);
      }),
    now,
    timers,
    log,
  });
  const installs = createReconcileLoop({
    reconcile: (id) =>
      context.metrics.reconciling("installs", async () => {
        const until = await reconcileInstall(context, InstallId.parse(id));
        if (until !== undefined) installs.markAt(id, until);
      }),
    now,
    timers,
    log,
  });
  const link = createLinkEndpoint(() => context, {
    pingMs: options.pingMs ?? PING_MS,
    onPresence: ({ kind, audience }) => {
      if (kind === "install") installs.mark(audience);
      if (kind === "setup") void markAll();
    },
  });
  const context: ServerContext = {
    store,
    keys,
    get trust() {
      if (trust) return trust;
      throw new Failure("unavailable", "the server is starting");
    },
    vendorContent: createRegistryFiles(directory.registry),
    checkpoints,
    agentCheckpoints: createAgentCheckpoints({
      context: () => context,
      send: (audience) => link.askCheckpoints(audience),
      timers,
    }),
    logs: createJobLogs(directory.logs, options),
    live: createLiveEvents({ now }),
    metrics: createMetrics({
      version: SERVER_VERSION,
      agents: () => link.connected(),
      backlog: (loop) => (loop === "installs" ? installs : releases).backlog(),
    }),
    followers: createFollowers({
      graceMs: options.followerGraceMs ?? FOLLOWER_GRACE_MS,
      onAbandoned: (id) => stopAbandoned(context, id),
    }),
    repeats: createRepeats({ now }),
    failedLogins: createFailedLogins(now),
    uploads: directory.uploads,
    apps,
    readApp,
    publicUrl: () => url ?? "",
    caFingerprint: () => listener.caFingerprint(),
    certificates: listener.certificates,
    authority: listener.authority,
    now,
    startedAt: now(),
    version: SERVER_VERSION,
    log,
    presence: link,
    wake: {
      install: (id) => installs.mark(id),
      allInstalls: () => void markAll(),
      releases: () => releases.mark("releases"),
      outbox: (audience) => link.look(audience),
      revoked: (audience) => link.revoked(audience),
    },
  };
  listener.authority?.onChanged(() => link.authoritiesChanged());
  // Made when it is first asked for: a client is told where to get a token, and the port that this
  // names may be known only after listening.
  let registry: Registry | undefined;
  const vendorRegistry = () => {
    registry ??= createVendorRegistry(directory.registry, context);
    return registry;
  };
  const rest = createRestServer(() => context, {
    registry: { handle: (request, response) => vendorRegistry().handle(request, response) },
    limits: { ...LISTEN_LIMITS, ...options.limits },
    tls: listener.tls,
  });
  const certificate = "setSecureContext" in rest.server ? listener.keep(rest.server) : undefined;
  rest.server.on("upgrade", (request, socket, head) => link.handleUpgrade(request, socket, head));

  try {
    await listen(rest.app, options);
    const { port } = rest.server.address() as AddressInfo;
    listening = `${listener.scheme}://${hostInUrl(options.host)}:${port}`;
    url ??= listening;
    // After listening: the trust document names the origin that agents pull from.
    const origin = () => new URL(context.publicUrl()).origin;
    trust = await openTrust({ store, signer, directory: directory.trust, origin, now, log });
    trust.onPublished(() => {
      link.trustChanged();
      releases.mark("releases");
    });
    await trust.keepCurrent();
  } catch (reason) {
    certificate?.stop();
    await link.close();
    await apps.close();
    await rest.app.close();
    await signer.close();
    await store.close();
    throw reason;
  }
  const retention = startRetention(context, {
    settings: options.retention,
    registry: directory.registry,
    timers,
  });
  const flushing = setInterval(() => void flush(), FLUSH_EVERY_MS);
  const renewing = setInterval(() => void renew(), RENEW_EVERY_MS);
  releases.mark("releases");
  await markAll();
  await closeLogs();
  return { url, listening, context, lookAtCertificate: async () => certificate?.look(), close };

  async function markAll(): Promise<void> {
    try {
      for (const { id } of await store.read.installs.all()) installs.mark(id);
    } catch (reason) {
      log.error({ reason }, "the installs could not be looked at");
    }
  }

  async function closeLogs(): Promise<void> {
    try {
      await closeLeftLogs(context);
    } catch (reason) {
      log.error({ reason }, "logs of an earlier run could not be compared");
    }
  }

  async function flush(options: { readonly all?: boolean } = {}): Promise<void> {
    try {
      await flushRepeats(context, options);
    } catch (reason) {
      log.error({ reason }, "what was refused several times could not be put on record");
    }
  }

  async function renew(): Promise<void> {
    try {
      await trust?.keepCurrent();
    } catch (reason) {
      log.error({ reason }, "the trust document could not be renewed");
    }
  }

  async function close(): Promise<void> {
    clearInterval(renewing);
    await retention.stop();
    certificate?.stop();
    context.followers.stop();
    clearInterval(flushing);
    await link.close();
    await Promise.all([installs.stop(), releases.stop()]);
    await apps.close();
    await rest.app.close();
    await registry?.close();
    await flush({ all: true });
    await signer.close();
    await store.close();
    context.metrics.close();
    directory.release();
  }
}

function hostInUrl(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}

async function listen(
  app: ReturnType<typeof createRestServer>["app"],
  { host, port }: Pick<ServerOptions, "host" | "port">,
): Promise<void> {
  try {
    await app.listen({ host, port });
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code;
    if (code !== "EADDRINUSE") throw cause;
    throw new Failure("conflict", `${host}:${port} is in use by another program`, { cause });
  }
}

/** The first token of a new server. Its value lies in a file that its owner alone can read. */
async function ensureAdminToken(store: Store, file: string, now: () => Instant): Promise<void> {
  const kept = (await readIfThere(file))?.trim();
  const secret = kept ?? `exclave_${newSecret(32)}`;
  if (kept === undefined) await writeDurably(file, `${secret}\n`);
  await store.transaction(async (tx) => {
    const row = tokenRow({ name: "admin", role: "admin" }, secret, now());
    // The file is written first: a crash in between leaves a token nobody knows of yet.
    if (await tx.tokens.byHash(row.hash)) return;
    await tx.tokens.put(row);
    await tx.audit.append({
      at: now(),
      actor: "server",
      action: "token.created",
      subject: row.id,
      details: { name: row.name, role: row.role, because: "first start" },
    });
  });
}
