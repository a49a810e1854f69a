// The control plane, put together: store, link, loops, REST and registry in one process on one port.

import type { AddressInfo } from "node:net";
import { dirname, join, resolve } from "node:path";
import { Failure, Instant } from "@exclave/core";
import type { Registry } from "@exclave/oci";
import type { Logger } from "pino";
import type { ServerContext } from "./context.ts";
import { claimDataDirectory, type DataDirectory } from "./data-directory.ts";
import { createDirtyLoop } from "./dirty-loop.ts";
import { writeDurably } from "./durable-file.ts";
import { newSecret } from "./identifiers.ts";
import { lookAtInstall } from "./install/install-loop.ts";
import { createJobLogs } from "./job-logs.ts";
import { loadKeys, readIfThere } from "./keys.ts";
import { createLinkEndpoint } from "./link/link-endpoint.ts";
import { createLiveEvents } from "./live-events.ts";
import { createAppReader } from "./release/app-of-release.ts";
import { lookAtReleases } from "./release/release-loop.ts";
import { createRestServer } from "./rest/rest-server.ts";
import { tokenRow } from "./rest/tokens.ts";
import { openSqliteStore } from "./store/sqlite/sqlite-store.ts";
import type { Store } from "./store/store.ts";
import { createVendorRegistry } from "./vendor-registry.ts";

export const SERVER_VERSION = "0.1.0";
const PING_MS = 10_000;

export interface ServerOptions {
  readonly data: string;
  readonly host: string;
  readonly port: number;
  /** How agents and people reach it; its own address unless given. */
  readonly publicUrl?: string;
  readonly log: Logger;
  readonly now?: () => number;
  readonly pingMs?: number;
  /** More of a job's log than this is not kept. */
  readonly logBytesMax?: number;
}

export interface RunningServer {
  readonly url: string;
  readonly context: ServerContext;
  close(): Promise<void>;
}

export async function startServer(options: ServerOptions): Promise<RunningServer> {
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
  const store = openSqliteStore(directory.database);
  await ensureAdminToken(store, directory.adminToken, now);

  let url = options.publicUrl;
  const readApp = createAppReader();
  const releases = createDirtyLoop({ look: () => lookAtReleases(context, readApp), now, log });
  const installs = createDirtyLoop({
    look: async (name) => {
      const until = await lookAtInstall(context, name);
      if (until !== undefined) installs.markAt(name, until);
    },
    now,
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
    logs: createJobLogs(directory.logs, options),
    live: createLiveEvents({ now }),
    uploads: directory.uploads,
    readApp,
    publicUrl: () => url ?? "",
    installsDirectory: join(dirname(resolve(options.data)), "installs"),
    now,
    startedAt: now(),
    version: SERVER_VERSION,
    log,
    presence: link,
    wake: {
      install: (name) => installs.mark(name),
      allInstalls: () => void markAll(),
      releases: () => releases.mark("releases"),
      outbox: (audience) => link.look(audience),
    },
  };
  // Made when it is first asked for: a client is told where to get a token, and the port that this
  // names may be known only after listening.
  let registry: Registry | undefined;
  const vendorRegistry = () => {
    registry ??= createVendorRegistry(directory.registry, context);
    return registry;
  };
  const rest = createRestServer(() => context, {
    registry: { handle: (request, response) => vendorRegistry().handle(request, response) },
  });
  rest.server.on("upgrade", (request, socket, head) => link.handleUpgrade(request, socket, head));

  try {
    await listen(rest.app, options);
  } catch (reason) {
    await link.close();
    await store.close();
    throw reason;
  }
  const { port } = rest.server.address() as AddressInfo;
  url ??= `http://${options.host}:${port}`;
  releases.mark("releases");
  await markAll();
  return { url, context, close };

  async function markAll(): Promise<void> {
    try {
      for (const { name } of await store.read.installs.all()) installs.mark(name);
    } catch (reason) {
      log.error({ reason }, "the installs could not be looked at");
    }
  }

  async function close(): Promise<void> {
    await link.close();
    await Promise.all([installs.stop(), releases.stop()]);
    await rest.app.close();
    await registry?.close();
    await store.close();
    directory.release();
  }
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
  if (kept === undefined) await writeDurably(file, `${secret}\n`, 0o600);
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
