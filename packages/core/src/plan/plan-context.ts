// What every decision about an install looks at, gathered once.

import type { ComponentName, Digest, Instant } from "../ids.ts";
import type { ArtifactRef } from "../manifest/manifest.ts";
import { deployKey } from "./deploy-key.ts";
import {
  artifactKey,
  type DeployedComponent,
  type Seen,
  type SeenComponent,
  type Wanted,
  type WantedComponent,
} from "./install-state.ts";

export interface PlanContext {
  readonly install: string;
  readonly app: string;
  readonly channel: string;
  readonly mode: Wanted["mode"];
  readonly now: Instant;
  readonly seen: Seen;
  readonly runner: ArtifactRef;
  readonly release: string | undefined;
  readonly index: ArtifactRef | undefined;
  /** Empty when everything is to go. */
  readonly wanted: readonly WantedComponent[];
  /** Deployed, or possibly so, and not wanted as it is. */
  readonly leftovers: readonly ComponentName[];
  readonly isWanted: (name: ComponentName) => boolean;
  readonly mayDestroy: (name: ComponentName) => boolean;
  readonly there: (name: ComponentName) => SeenComponent;
  /** What a deploy now would be. */
  readonly keyOf: (component: WantedComponent) => Digest;
  /** Deployed exactly as wanted, and nothing half-done on top of it. */
  readonly isCurrent: (component: WantedComponent) => boolean;
  readonly wantedNamed: (name: ComponentName) => WantedComponent | undefined;
  readonly isSynced: (ref: ArtifactRef) => boolean;
}

export function createPlanContext(request: Wanted, seen: Seen, now: Instant): PlanContext {
  const isDestroyed = request.mode === "destroyed";
  const wanted = isDestroyed ? [] : request.components;
  const byName = new Map(wanted.map((component) => [component.name, component]));
  const keys = new Map(
    wanted.map((component) => [component, deployKey(component, seen.components)]),
  );

  const context: PlanContext = {
    install: request.install,
    app: request.app,
    channel: request.channel,
    mode: request.mode,
    now,
    seen,
    runner: request.runner,
    release: request.release,
    index: request.index,
    wanted,
    leftovers: [...seen.components.keys()].filter(isLeftover),
    isWanted: (name) => byName.has(name),
    mayDestroy: (name) => isDestroyed || request.allowDestroy.has(name),
    there: (name) => seen.components.get(name) ?? {},
    keyOf: (component) => keys.get(component) ?? deployKey(component, seen.components),
    isCurrent,
    wantedNamed: (name) => byName.get(name),
    isSynced: (ref) => seen.synced.has(artifactKey(ref)),
  };
  return context;

  function isCurrent(component: WantedComponent): boolean {
    const { deployed, attempted } = seen.components.get(component.name) ?? {};
    return attempted === undefined && deployed?.deployKey === keys.get(component);
  }

  /** A component whose type changed has to go as what it is before it comes as what it shall be. */
  function isLeftover(name: ComponentName): boolean {
    const trace = traceOf(seen.components.get(name) ?? {});
    return trace !== undefined && byName.get(name)?.type !== trace.type;
  }
}

/** What a destroy would have to take down. */
export function traceOf({ deployed, attempted }: SeenComponent): DeployedComponent | undefined {
  return attempted ?? deployed;
}
