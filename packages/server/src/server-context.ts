// The parts of a server, made once and handed to all that need them.

import { type Audience, Failure } from "@exclave/core";
import { createRegistryFiles } from "@exclave/oci";
import { createFailedLogins } from "./access/failed-logins.ts";
import { createRepeats } from "./access/repeats.ts";
import { createAgentCheckpoints } from "./audit/agent-checkpoints.ts";
import type { ServerContent } from "./content/server-content.ts";
import type { ServerContext, Wake } from "./context.ts";
import { createShownInstalls } from "./install/shown-installs.ts";
import { createFollowers, FOLLOWER_GRACE_MS, stopAbandoned } from "./job/followers.ts";
import type { LinkEndpoint } from "./link/link-endpoint.ts";
import { createLiveEvents } from "./live-events.ts";
import { createMetrics } from "./metrics/metrics.ts";
import type { Fleet } from "./peers/fleet.ts";
import { createAppChecker } from "./release/app-checker.ts";
import { createAppReader } from "./release/app-of-release.ts";
import type { Ground } from "./server-ground.ts";
import type { ServerLoops } from "./server-loops.ts";
import type { Listener } from "./tls/open-listener.ts";
import type { TraceSettings } from "./traces/read-settings.ts";
import { createSpanExporter } from "./traces/span-exporter.ts";
import { createTraces } from "./traces/traces.ts";
import type { Trust } from "./trust/trust.ts";

export interface ContextParts {
  readonly ground: Ground;
  readonly content: ServerContent;
  readonly loops: ServerLoops;
  readonly fleet: Fleet;
  readonly link: () => LinkEndpoint;
  /** Known once the server listens. */
  readonly reached: { url?: string | undefined; trust?: Trust };
  readonly listener: Listener;
  readonly version: string;
  readonly followerGraceMs?: number;
  readonly traces?: TraceSettings | undefined;
}

export function createContext(parts: ContextParts): ServerContext {
  const { ground, content, loops, fleet, link, listener, reached, version } = parts;
  const { store, peers, keys, checkpoints, timers, now, log } = ground;
  const context: ServerContext = {
    store,
    keys,
    get trust() {
      if (reached.trust) return reached.trust;
      throw new Failure("unavailable", "the server is starting");
    },
    vendorContent: createRegistryFiles(content.registry.directory, content.registry.objects),
    checkpoints,
    agentCheckpoints: createAgentCheckpoints({
      context: () => context,
      send: (audience) => askCheckpoints(parts, audience),
      tell: (notice) => peers.tell(notice),
      timers,
    }),
    logs: content.logs,
    sources: content.sources,
    shown: createShownInstalls({ context: () => context, timers }),
    live: createLiveEvents({ now, tell: (event) => peers.tell({ kind: "event", event }) }),
    metrics: createMetrics({
      version,
      agents: () => link().connected(),
      backlog: (loop) => loops.backlog(loop),
      droppedSpans: () => context.traces.droppedSpans,
    }),
    traces: createTraces({
      now,
      exporter:
        parts.traces && createSpanExporter({ settings: parts.traces, version, timers, log }),
    }),
    followers: createFollowers({
      graceMs: parts.followerGraceMs ?? FOLLOWER_GRACE_MS,
      onAbandoned: (id) => stopAbandoned(context, id),
      tell: (job) => peers.tell({ kind: "followed", job }),
    }),
    repeats: createRepeats({ now }),
    failedLogins: createFailedLogins(now),
    apps: createAppChecker(),
    readApp: createAppReader(),
    publicUrl: () => reached.url ?? "",
    caFingerprint: () => listener.caFingerprint(),
    certificates: listener.certificates,
    authority: listener.authority,
    now,
    startedAt: now(),
    version,
    log,
    peers,
    presence: {
      isOnline: (audience) => link().isOnline(audience) || fleet.isElsewhere(audience),
      watchOf: (audience) => link().watchOf(audience) ?? fleet.watchElsewhere(audience),
    },
    wake: createWake(parts),
  };
  return context;
}

/** Here what is this server's, and by a notice what is another's. */
function createWake({ ground: { peers }, loops, fleet, link }: ContextParts): Wake {
  return {
    install(id) {
      if (fleet.plans(id)) loops.markInstall(id);
      else peers.tell({ kind: "install", install: id });
    },
    allInstalls() {
      loops.markAll();
      peers.tell({ kind: "all_installs" });
    },
    releases() {
      loops.markReleases();
      peers.tell({ kind: "releases" });
    },
    outbox(audience) {
      if (link().isOnline(audience)) link().look(audience);
      else peers.tell({ kind: "outbox", audience });
    },
    revoked(audience) {
      link().revoked(audience);
      peers.tell({ kind: "revoked", audience });
    },
  };
}

/** Whether somebody is there to ask: here, or at another server, which answers by a notice. */
function askCheckpoints({ ground, fleet, link }: ContextParts, audience: Audience): boolean {
  if (link().askCheckpoints(audience)) return true;
  ground.peers.tell({ kind: "checkpoints_wanted", audience });
  return fleet.isElsewhere(audience);
}
