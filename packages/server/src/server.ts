// The control plane, put together: store, link, loops, REST and registry in one process on one port.

import { existsSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { join, resolve } from "node:path";
import { type Audience, Failure, InstallId, refusePlainHttp } from "@exclave/core";
import { LISTEN_LIMITS, type ListenLimits } from "@exclave/oci";
import type { S3ObjectStore } from "@exclave/oci/objects";
import type { Logger } from "pino";
import { checkContentPlace } from "./content/content-place.ts";
import { openContent } from "./content/server-content.ts";
import type { ServerContext } from "./context.ts";
import { claimDataDirectory, type DataDirectory } from "./data-directory.ts";
import { createLinkEndpoint } from "./link/link-endpoint.ts";
import { createFleet } from "./peers/fleet.ts";
import { followPeers } from "./peers/follow-peers.ts";
import { createRestServer } from "./rest/rest-server.ts";
import { startRetention } from "./retention/retention.ts";
import type { RetentionSettings } from "./retention/retention-rules.ts";
import { createContext } from "./server-context.ts";
import { type Ground, openGround } from "./server-ground.ts";
import { createServerLoops } from "./server-loops.ts";
import { startUpkeep } from "./server-upkeep.ts";
import type { Signer } from "./signer/signer.ts";
import { planListener, type TlsSettings } from "./tls/listener-tls.ts";
import { openListener } from "./tls/open-listener.ts";
import type { TraceSettings } from "./traces/read-settings.ts";
import { openTrust, type Trust } from "./trust/trust.ts";
import { createLazyRegistry } from "./vendor-registry.ts";

export const SERVER_VERSION = "0.1.0";
const PING_MS = 10_000;

export interface ServerOptions {
  readonly data: string;
  /** Of a PostgreSQL database; a file in the data directory unless given. */
  readonly databaseUrl?: string;
  /** Of this program, as the other servers on the database see it; its own unless given. */
  readonly version?: string;
  readonly host: string;
  readonly port: number;
  /** How agents and people reach it; its own address unless given. */
  readonly publicUrl?: string;
  readonly log: Logger;
  readonly now?: () => number;
  readonly pingMs?: number;
  /** Who signs with the keys in that directory; a process of its own unless given. */
  readonly openSigner?: (keys: string) => Signer | Promise<Signer>;
  /** Where logs, sources and registry content are kept; files in the data directory unless given. */
  readonly objects?: S3ObjectStore | undefined;
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
  /** Where spans of requests and jobs go; nowhere unless said. */
  readonly traces?: TraceSettings | undefined;
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
  const directory = await claimDataDirectory(resolve(options.data), {
    isShared: isShared(options),
  });
  try {
    return await startOn(directory, options);
  } catch (reason) {
    directory.release();
    throw reason;
  }
}

async function startOn(directory: DataDirectory, options: ServerOptions): Promise<RunningServer> {
  const { log, host, publicUrl } = options;
  await options.objects?.check();
  await checkPlace(directory, options);
  const version = options.version ?? SERVER_VERSION;
  const ground = await openGround(directory, groundOptions(options), () => context.trust);
  const content = openContent(directory, options);
  const { timers, now, peers } = ground;
  const plan = planListener(options);
  const keys = directory.keys;
  const wish = { plan, host, publicUrl, keys, now, timers, log };
  const listener = await peers.alone("start", () => openListener(wish));
  const reached: { url?: string | undefined; trust?: Trust } = { url: publicUrl };
  const loops = createServerLoops(() => context, { ...ground, fleet: () => fleet });
  const link = createLinkEndpoint(() => context, {
    pingMs: options.pingMs ?? PING_MS,
    isReady: () => reached.trust !== undefined,
    onPresence: ({ kind, audience }) => {
      if (kind === "install") context.wake.install(InstallId.parse(audience));
      if (kind === "setup") context.wake.allInstalls();
    },
  });
  const isHere = (audience: Audience) => link.isOnline(audience);
  const fleet = createFleet({ peers, store: ground.store, isHere, now });
  const context: ServerContext = createContext({
    ...options,
    ground,
    content,
    loops,
    fleet,
    link: () => link,
    reached,
    listener,
    version,
  });
  listener.authority?.onChanged(() => link.authoritiesChanged());
  const registry = createLazyRegistry(content.registry, context, { isShared: isShared(options) });
  const rest = createRestServer(() => context, {
    registry,
    limits: { ...LISTEN_LIMITS, ...options.limits },
    tls: listener.tls,
  });
  const certificate = "setSecureContext" in rest.server ? listener.keep(rest.server) : undefined;
  rest.server.on("upgrade", (request, socket, head) => link.handleUpgrade(request, socket, head));

  try {
    await listen(rest.app, options);
    const { port } = rest.server.address() as AddressInfo;
    const listening = `${listener.scheme}://${hostInUrl(host)}:${port}`;
    reached.url ??= listening;
    reached.trust = await openCurrentTrust(directory, ground, reached.url);
    reached.trust.onPublished(() => {
      link.trustChanged();
      loops.markReleases();
    });
    await reached.trust.keepCurrent();
    await fleet.reload();
    followPeers(context, { fleet, link, loops, timers });
    loops.markReleases();
    await loops.markedAll();
    const upkeep = await startUpkeep(context, content);
    const { retention: settings } = options;
    const retention = startRetention(context, { settings, registry: content.registry, timers });
    const lookAtCertificate = async () => certificate?.look();
    return {
      url: reached.url,
      listening,
      context,
      lookAtCertificate,
      async close() {
        await retention.stop();
        await close(() => upkeep.stop());
        directory.release();
      },
    };
  } catch (reason) {
    await close(async () => undefined);
    throw reason;
  }

  async function close(stopUpkeep: () => Promise<void>): Promise<void> {
    certificate?.stop();
    context.followers.stop();
    // Nothing new is directed by a server that stops.
    await loops.stop();
    await context.shown.stop();
    await link.close({ isAlone: peers.servers().length < 2 });
    await context.apps.close();
    await rest.app.close();
    await registry.close();
    await stopUpkeep();
    await content.close();
    options.objects?.close();
    await ground.peers.close();
    await ground.signer.close();
    await ground.store.close();
    await context.traces.stop();
    context.metrics.close();
  }
}

/** Whether other servers may be on the same database and in the same directory. */
function isShared({ databaseUrl }: ServerOptions): boolean {
  return databaseUrl !== undefined;
}

function groundOptions(options: ServerOptions) {
  const { version = SERVER_VERSION, publicUrl } = options;
  return { ...options, version, address: publicUrl ?? fixedAddress(options) };
}

async function checkPlace(
  { registry }: Pick<DataDirectory, "registry">,
  { data, objects }: ServerOptions,
): Promise<void> {
  await checkContentPlace(resolve(data), {
    objects: objects?.place,
    hasFiles: async () => existsSync(join(registry, "blobs")),
  });
}

/** Undefined where the system is to choose a port: nobody else can know it before. */
function fixedAddress(options: ServerOptions): string | undefined {
  if (options.port === 0) return undefined;
  const scheme = planListener(options).kind === "plain" ? "http" : "https";
  return `${scheme}://${hostInUrl(options.host)}:${options.port}`;
}

/** After listening: the trust document names the origin that agents pull from. */
function openCurrentTrust(
  directory: DataDirectory,
  { store, peers, signer, now, log }: Ground,
  url: string,
): Promise<Trust> {
  const origin = () => new URL(url).origin;
  return openTrust({ store, peers, signer, directory: directory.trust, origin, now, log });
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
