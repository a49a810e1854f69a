// What to do about one component that is there and not wanted, or not wanted as what it is. Absence
// alone deletes nothing, and nothing goes before what stands on it.

import type { ComponentName } from "../ids.ts";
import { decideRegain, regainHold } from "./decide-regain.ts";
import { failureHold } from "./failure-hold.ts";
import { byCommand, byItself, byRelease, type Hold } from "./hold.ts";
import type { SeenComponent } from "./install-state.ts";
import { type PlanContext, traceOf } from "./plan-context.ts";
import type { ComponentStep, Decision } from "./plan-install.ts";

export function decideDestroy(
  component: ComponentName,
  context: PlanContext,
): Decision | undefined {
  const there = context.there(component);
  const trace = traceOf(there);
  if (!trace) return undefined;
  if (there.activeJob) {
    const { job, operation, state } = there.activeJob;
    const because = `${operation} job ${job} is ${state}`;
    return { hold: { component, because, ...byItself("the job ends") } };
  }

  const wish = wishHold(component, context);
  const regain = wish ? undefined : decideRegain(component, trace, context);
  if (regain) return regain;
  const hold =
    wish ??
    userHold(component, context) ??
    regainHold(component, context) ??
    failureHold(component, there.lastFailure, trace.deployKey, ["destroy"], context) ??
    unsyncedHold(component, context);
  if (hold) return { hold };

  const { type, plugin, artifact, config, dependsOn, deployKey } = trace;
  const because = reasonToDestroy(component, context);
  const step = { component, type, plugin, config, dependsOn, deployKey, because };
  return {
    step: { kind: "destroy", ...step, ...(artifact ? { artifact } : {}) } satisfies ComponentStep,
  };
}

function wishHold(component: ComponentName, context: PlanContext): Hold | undefined {
  if (context.mayDestroy(component)) return undefined;
  const because = context.isWanted(component)
    ? `its type changed from ${traceOf(context.there(component))?.type} to ${context.wantedNamed(component)?.type}, so it has to be destroyed first`
    : "it is deployed and no longer wanted, and nobody said that it may be destroyed";
  const allow = `exclave install deploy ${context.install} --allow-destroy ${component}`;
  return { component, because, ...byCommand(allow, "says so") };
}

/** Whoever stands on it: what is wanted with it below, and what is still there that was put on it. */
function userHold(component: ComponentName, context: PlanContext): Hold | undefined {
  const wanting = context.wanted.find(({ dependsOn }) => dependsOn.includes(component));
  if (wanting) {
    const because = `${wanting.name} depends on it`;
    const way = context.isWanted(component) ? "this one gets a new name" : "it is wanted again";
    const does = `has made a release in which ${wanting.name} no longer does, or ${way}`;
    return { component, because, ...byRelease(context, does) };
  }
  for (const name of context.seen.components.keys()) {
    if (name === component || !standsOn(name, component, context)) continue;
    const isLeaving = !context.isWanted(name) || context.leftovers.includes(name);
    const end = byItself(isLeaving ? `${name} is destroyed` : `${name} is deployed without it`);
    return { component, because: `${name} is still deployed on it`, ...end };
  }
  return undefined;
}

/**
 * One that is deployed as wanted stands on what it now names: a changed `dependsOn` alone is not a
 * reason to deploy anew, so what was recorded at its deploy may be out of date.
 */
function standsOn(name: ComponentName, component: ComponentName, context: PlanContext): boolean {
  const want = context.wantedNamed(name);
  if (want && context.isCurrent(want)) return false;
  const { deployed, attempted } = context.there(name);
  return [deployed, attempted].some((trace) => trace?.dependsOn.includes(component));
}

function unsyncedHold(component: ComponentName, context: PlanContext): Hold | undefined {
  if (!isTriedInVain(context.there(component))) return undefined;
  const trace = traceOf(context.there(component));
  const refs = [trace?.plugin, trace?.artifact, trace?.index].filter((ref) => ref !== undefined);
  if (refs.every(context.isSynced)) return undefined;
  const because = "what it takes to destroy it is not in the install's registry";
  return { component, because, ...byItself("the sync has brought it") };
}

/**
 * A destroy runs from what the agent has unpacked, and asks nothing of the install's registry, which may
 * be gone. Only one that failed for want of something there has it synced first.
 */
export function isTriedInVain({ lastFailure }: SeenComponent): boolean {
  return lastFailure?.operation === "destroy" && lastFailure.code === "not_synced";
}

function reasonToDestroy(component: ComponentName, context: PlanContext): string {
  if (context.isWanted(component))
    return "its type changed, and it was said that it may be destroyed";
  return context.mode === "destroyed"
    ? "the install is to be destroyed"
    : "it is no longer wanted, and it was said that it may be destroyed";
}
