// The parts of a server, made once and handed to all that need them.

import { Failure } from "@exclave/core";
import { createRegistryFiles } from "@exclave/oci";
import { createFailedLogins } from "./access/failed-logins.ts";
import { createRepeats } from "./access/repeats.ts";
import { createAgentCheckpoints } from "./audit/agent-checkpoints.ts";
import type { ServerContent } from "./content/server-content.ts";
import type { ServerContext } from "./context.ts";
import { createShownInstalls } from "./install/shown-installs.ts";
import { createFollowers, FOLLOWER_GRACE_MS, stopAbandoned } from "./job/followers.ts";
import type { LinkEndpoint } from "./link/link-endpoint.ts";
import { createLiveEvents } from "./live-events.ts";
import { createMetrics } from "./metrics/metrics.ts";
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
  readonly link: () => LinkEndpoint;
  /** Known once the server listens. */
  readonly reached: { url?: string | undefined; trust?: Trust };
  readonly listener: Listener;
  readonly version: string;
  readonly followerGraceMs?: number;
  readonly traces?: TraceSettings | undefined;
}

export function createContext(parts: ContextParts): ServerContext {
  const { ground, content, loops, link, listener, reached, version } = parts;
  const { store, keys, checkpoints, timers, now, log } = ground;
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
      send: (audience) => link().askCheckpoints(audience),
      timers,
    }),
    logs: content.logs,
    sources: content.sources,
    shown: createShownInstalls({ context: () => context, timers }),
    live: createLiveEvents({ now }),
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
    presence: {
      isOnline: (audience) => link().isOnline(audience),
      watchOf: (audience) => link().watchOf(audience),
    },
    wake: {
      install: (id) => loops.markInstall(id),
      allInstalls: () => loops.markAll(),
      releases: () => loops.markReleases(),
      outbox: (audience) => link().look(audience),
      revoked: (audience) => link().revoked(audience),
    },
  };
  return context;
}
