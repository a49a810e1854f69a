// What to do about one component that is wanted.

import type { ComponentName, Digest } from "../ids.ts";
import { decideRepair } from "./decide-repair.ts";
import { failureHold } from "./failure-hold.ts";
import { byItself, byRelease } from "./hold.ts";
import type { SeenComponent, WantedComponent } from "./install-state.ts";
import type { PlanContext } from "./plan-context.ts";
import type { ComponentStep, Decision } from "./plan-install.ts";

export function decideWanted(want: WantedComponent, context: PlanContext): Decision | undefined {
  const component = want.name;
  const there = context.there(component);
  // Its type changed: as a leftover it is decided elsewhere, and comes back here once it is gone.
  if (context.leftovers.includes(component)) return undefined;
  if (there.activeJob) {
    const { job, operation, state } = there.activeJob;
    const because = `${operation} job ${job} is ${state}`;
    return { hold: { component, because, ...byItself("the job ends") } };
  }
  const repair = context.isCurrent(want) ? decideRepair(want, there, context) : undefined;
  if (repair?.kind === "decided") return repair.decision;

  const deployKey = context.keyOf(want);
  const failure = failureHold(component, there.lastFailure, deployKey, ["plan", "apply"], context);
  const hold = failure ?? dependencyHold(want, context) ?? unsyncedHold(want, context);
  if (hold) return { hold };

  const because = repair?.because ?? reasonToDeploy(want, there, context);
  const decision = decideDeploy(want, there, deployKey, because);
  if (repair?.repair === undefined || decision.step?.kind !== "apply") return decision;
  return { step: { ...decision.step, repair: repair.repair } };
}

function decideDeploy(
  want: WantedComponent,
  there: SeenComponent,
  deployKey: Digest,
  because: string,
): Decision {
  if (!want.plannable) return { step: stepFor("apply", want, deployKey, because) };

  const plan = usablePlan(there, deployKey);
  if (!plan) return { step: stepFor("plan", want, deployKey, because) };

  return { step: { ...stepFor("apply", want, deployKey, because), plan: plan.digest } };
}

/** A plan is for one key and one use: the end of its apply, however it came, takes it away. */
function usablePlan({ plan }: SeenComponent, deployKey: Digest) {
  return plan?.deployKey === deployKey ? plan : undefined;
}

function stepFor(
  kind: "plan" | "apply",
  want: WantedComponent,
  deployKey: Digest,
  because: string,
): ComponentStep {
  const { name: component, type, plugin, artifact, config, dependsOn } = want;
  const step = { kind, component, type, plugin, config, dependsOn, deployKey, because };
  return artifact ? { ...step, artifact } : step;
}

function reasonToDeploy(want: WantedComponent, there: SeenComponent, context: PlanContext): string {
  const { deployed, attempted } = there;
  if (!deployed) return attempted ? "the last apply did not finish" : firstDeploy(context);
  if (deployed.artifact?.digest !== want.artifact?.digest) {
    return `its artifact changed, replaces ${deployed.artifact?.digest ?? "none"}`;
  }
  if (deployed.plugin.digest !== want.plugin.digest) {
    return `its plugin changed, replaces ${deployed.plugin.digest}`;
  }
  if (deployed.deployKey !== context.keyOf(want)) {
    return "its configuration, or a value it uses, changed";
  }
  return "the last apply did not finish";
}

function firstDeploy({ release }: PlanContext): string {
  return release ? `first deploy, by release ${release}` : "first deploy";
}

function dependencyHold(want: WantedComponent, context: PlanContext) {
  const waiting = want.dependsOn.find((name) => !isReady(name, context));
  if (waiting === undefined) return undefined;

  const component = want.name;
  if (!context.isWanted(waiting)) {
    const because = `it needs ${waiting}, which is not wanted`;
    return { component, because, ...byRelease(context, `has made a release with ${waiting}`) };
  }

  const failure = context.there(waiting).lastFailure;
  const because = failure
    ? `it needs ${waiting}, whose ${failure.operation} failed (${failure.code}): ${failure.message}`
    : `it needs ${waiting}, which is not deployed as wanted yet`;
  return { component, because, ...byItself(`${waiting} is deployed`) };
}

function isReady(name: ComponentName, context: PlanContext): boolean {
  const dependency = context.wantedNamed(name);
  if (!dependency || context.leftovers.includes(name)) return false;
  const { activeJob } = context.there(name);
  return context.isCurrent(dependency) && (!activeJob || activeJob.operation === "plan");
}

function unsyncedHold(want: WantedComponent, context: PlanContext) {
  const refs = [
    { name: "the runner", ref: context.runner },
    { name: "its plugin", ref: want.plugin },
    ...(want.artifact ? [{ name: "its artifact", ref: want.artifact }] : []),
    ...(context.index ? [{ name: "its release", ref: context.index }] : []),
  ];
  const missing = refs.filter(({ ref }) => !context.isSynced(ref)).map(({ name }) => name);
  if (missing.length === 0) return undefined;
  const because = `not in the install's registry yet: ${missing.join(", ")}`;
  return { component: want.name, because, ...byItself("the sync has brought it") };
}
