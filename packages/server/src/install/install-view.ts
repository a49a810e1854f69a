// An install as people see it, from the same facts and the same decision the loop acts on.

import {
  type AlarmView,
  type ComponentView,
  type HoldView,
  type InstallView,
  timeOf,
} from "@exclave/api";
import {
  artifactKey,
  type ComponentName,
  deployKey,
  type Health,
  type HealthNow,
  type Hold,
  type Instant,
  type Seen,
  type SeenComponent,
  type WantedComponent,
} from "@exclave/core";
import type { ComponentRow } from "../store/rows.ts";
import {
  healthOf,
  type InstallFacts,
  isComponentWork,
  seenOf,
  wantedOf,
} from "./gather-install.ts";
import { decideInstall, type InstallDecision } from "./install-decision.ts";

/** Decided anew, unless what was decided of these facts is given. */
export function viewInstall(
  facts: InstallFacts,
  now: Instant,
  decision: InstallDecision = decideInstall(facts, now),
): InstallView {
  const { install, release, agent, isAgentOnline } = facts;
  const { holds, steps } = decision;
  const wanted = wantedOf(facts);
  const seen = seenOf(facts, now);
  const components = componentViews(
    facts,
    seen,
    wanted?.mode === "present" ? wanted.components : [],
    now,
  );
  return {
    id: install.id,
    name: install.name,
    app: install.appName,
    appId: install.app,
    channel: install.channel,
    release: release?.id ?? null,
    version: release?.version ?? null,
    health: installHealth(components),
    phase: phaseOf(facts, { isBusy: steps.length > 0, isHeld: holds.length > 0 }),
    sandbox: install.sandbox,
    sandboxConfig: install.sandboxConfig,
    agent: {
      id: agent?.id ?? null,
      status: isAgentOnline ? "online" : agent?.everConnected ? "offline" : "never",
      since: timeOf(agent?.everConnected ? agent.seenAt : null),
    },
    inputs: install.inputs,
    components,
    holds: holds.map(viewHold),
    alarms: alarmsOf(facts, now),
    createdAt: timeOf(install.createdAt),
  };
}

/** How long a lost journal, or what an agent noticed, is shown for. */
const ALARM_SHOWN_MS = 7 * 24 * 60 * 60_000;

function alarmsOf({ agent }: InstallFacts, now: Instant): AlarmView[] {
  const kept = "what it keeps in its vault it still has; jobs it no longer knows end as lost";
  const reset = agent?.reset && {
    at: agent.reset.at,
    because: `the agent started over: ${agent.reset.because}; ${kept}`,
  };
  return [...(reset ? [reset] : []), ...(agent?.alarms ?? [])]
    .filter(({ at }) => now - at <= ALARM_SHOWN_MS)
    .sort((a, b) => a.at - b.at)
    .map(({ at, because }) => ({ at: timeOf(at), because }));
}

function viewHold({ component, because, endsWhen, command }: Hold): HoldView {
  return { component: component ?? null, because, endsWhen, command: command ?? null };
}

function phaseOf(
  { install, open, agent }: InstallFacts,
  { isBusy, isHeld }: { readonly isBusy: boolean; readonly isHeld: boolean },
): InstallView["phase"] {
  if (install.sandboxState === "destroyed") return "destroyed";
  if (install.mode === "destroyed") return "destroying";
  if (install.sandboxState !== "present" || !agent?.everConnected) return "setting-up";
  const isAtWork = open.some(
    ({ purpose }) => purpose.kind === "sync" || isComponentWork(purpose.kind),
  );
  if (isBusy || isAtWork) return "deploying";
  return isHeld ? "held" : "settled";
}

function componentViews(
  facts: InstallFacts,
  seen: Seen,
  wanted: readonly WantedComponent[],
  now: Instant,
): ComponentView[] {
  const { components } = facts;
  const wantedNames = wanted.map(({ name }) => name);
  const rest = [...seen.components.keys()].filter((name) => !wantedNames.includes(name));
  return [...wantedNames, ...rest].flatMap((name): ComponentView[] => {
    const row = components.find((component) => component.name === name);
    const want = wanted.find((component) => component.name === name);
    const there = seen.components.get(name) ?? {};
    const isThere = there.deployed !== undefined || there.attempted !== undefined;
    if (!want && !isThere && !there.activeJob) return [];
    const health = row && healthOf(row, facts, now);
    return [viewComponent({ name, row, want, there, seen, health })];
  });
}

interface ComponentFacts {
  readonly name: ComponentName;
  readonly row: ComponentRow | undefined;
  readonly want: WantedComponent | undefined;
  readonly there: SeenComponent;
  readonly seen: Seen;
  readonly health: HealthNow | undefined;
}

function viewComponent(facts: ComponentFacts): ComponentView {
  const { name, row, want, there } = facts;
  const health = there.deployed === undefined ? undefined : facts.health;
  return {
    name,
    type: want?.type ?? row?.type ?? "",
    state: componentState(facts),
    health: health?.health ?? "missing",
    healthBecause: health?.because ?? "not deployed",
    healthSince: timeOf(health?.since ?? null),
    healthAt: timeOf(health?.at ?? null),
    healthSource: health?.source ?? null,
    drift: row?.drift ?? null,
    artifact: there.deployed?.artifact?.digest ?? null,
    wantedArtifact: want?.artifact?.digest ?? null,
    outputs: row?.outputs ?? {},
    activeJob: there.activeJob?.job ?? null,
    dependsOn: [...(want?.dependsOn ?? there.deployed?.dependsOn ?? [])],
  };
}

function componentState({ want, there, seen }: ComponentFacts): ComponentView["state"] {
  const { activeJob, deployed, attempted, lastFailure } = there;
  if (activeJob) {
    const doing = { plan: "planning", apply: "deploying", destroy: "destroying" } as const;
    return doing[activeJob.operation];
  }
  if (!want) return lastFailure ? "failed" : "removed";
  const key = deployKey(want, seen.components);
  if (!attempted && deployed?.deployKey === key) return "deployed";
  if (lastFailure && (lastFailure.key ?? key) === key) return "failed";
  const refs = [want.plugin, ...(want.artifact ? [want.artifact] : [])];
  if (seen.activeSync && !refs.every((ref) => seen.synced.has(artifactKey(ref)))) return "syncing";
  return deployed ? "outdated" : "waiting";
}

/** All there and well is healthy; some of it not, degraded; none of it there, missing. */
export function installHealth(components: readonly ComponentView[]): Health {
  const wanted = components.filter(({ state }) => state !== "removed");
  const healths = wanted.map(({ health }) => health);
  if (healths.length === 0) return "unknown";
  if (healths.every((health) => health === "missing")) return "missing";
  if (healths.some((health) => health === "missing" || health === "degraded")) return "degraded";
  return healths.every((health) => health === "healthy") ? "healthy" : "unknown";
}
