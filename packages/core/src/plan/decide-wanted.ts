// What to do about one component that is wanted.

import type { ComponentName, Digest } from "../ids.ts";
import { decideRepair } from "./decide-repair.ts";
import { failureHold } from "./failure-hold.ts";
import type { SeenComponent, WantedComponent } from "./install-state.ts";
import type { ComponentStep, Decision, PlanPolicy } from "./plan-install.ts";
import type { World } from "./world.ts";

export function decideWanted(
  want: WantedComponent,
  world: World,
  policy: PlanPolicy | undefined,
): Decision | undefined {
  const component = want.name;
  const there = world.there(component);
  // Its type changed: as a leftover it is decided elsewhere, and comes back here once it is gone.
  if (world.leftovers.includes(component)) return undefined;
  if (there.activeJob) {
    const { job, operation, state } = there.activeJob;
    const because = `${operation} job ${job} is ${state}`;
    return { hold: { component, because, endsWhen: "the job ends" } };
  }
  const repair = world.isCurrent(want) ? decideRepair(want, there, world) : undefined;
  if (repair?.kind === "decided") return repair.decision;

  const deployKey = world.keyOf(want);
  const failure = failureHold(component, there.lastFailure, deployKey, ["plan", "apply"], world);
  const hold = failure ?? dependencyHold(want, world) ?? unsyncedHold(want, world);
  if (hold) return { hold };

  const because = repair?.because ?? reasonToDeploy(want, there, world);
  const decision = decideDeploy(want, there, deployKey, because, policy);
  if (repair?.repair === undefined || decision.step?.kind !== "apply") return decision;
  return { step: { ...decision.step, repair: repair.repair } };
}

function decideDeploy(
  want: WantedComponent,
  there: SeenComponent,
  deployKey: Digest,
  because: string,
  policy: PlanPolicy | undefined,
): Decision {
  if (!want.plannable) return { step: stepFor("apply", want, deployKey, because) };

  const plan = usablePlan(there, deployKey);
  if (!plan) return { step: stepFor("plan", want, deployKey, because) };

  if (policy?.needsConsent.has(plan.risk) && !policy.consented.has(plan.digest)) {
    return {
      hold: {
        component: want.name,
        because: `its plan (${plan.risk}) waits for consent: ${plan.summary}`,
        endsWhen: `somebody agrees to plan ${plan.digest}`,
      },
    };
  }
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

function reasonToDeploy(want: WantedComponent, there: SeenComponent, world: World): string {
  const { deployed, attempted } = there;
  if (!deployed) return attempted ? "the last apply did not finish" : firstDeploy(world);
  if (deployed.artifact?.digest !== want.artifact?.digest) {
    return `its artifact changed, replaces ${deployed.artifact?.digest ?? "none"}`;
  }
  if (deployed.plugin.digest !== want.plugin.digest) {
    return `its plugin changed, replaces ${deployed.plugin.digest}`;
  }
  if (deployed.deployKey !== world.keyOf(want)) {
    return "its configuration, or a value it uses, changed";
  }
  return "the last apply did not finish";
}

function firstDeploy({ release }: World): string {
  return release ? `first deploy, by release ${release}` : "first deploy";
}

function dependencyHold(want: WantedComponent, world: World) {
  const waiting = want.dependsOn.find((name) => !isReady(name, world));
  if (waiting === undefined) return undefined;

  const component = want.name;
  const endsWhen = `${waiting} is deployed`;
  const dependency = world.wantedNamed(waiting);
  if (!dependency)
    return { component, because: `it needs ${waiting}, which is not wanted`, endsWhen };

  const failure = world.there(waiting).lastFailure;
  const because = failure
    ? `it needs ${waiting}, whose ${failure.operation} failed (${failure.code}): ${failure.message}`
    : `it needs ${waiting}, which is not deployed as wanted yet`;
  return { component, because, endsWhen };
}

function isReady(name: ComponentName, world: World): boolean {
  const dependency = world.wantedNamed(name);
  if (!dependency || world.leftovers.includes(name)) return false;
  const { activeJob } = world.there(name);
  return world.isCurrent(dependency) && (!activeJob || activeJob.operation === "plan");
}

function unsyncedHold(want: WantedComponent, world: World) {
  const refs = [
    { name: "the runner", ref: world.runner },
    { name: "its plugin", ref: want.plugin },
    ...(want.artifact ? [{ name: "its artifact", ref: want.artifact }] : []),
    ...(world.index ? [{ name: "its release", ref: world.index }] : []),
  ];
  const missing = refs.filter(({ ref }) => !world.isSynced(ref)).map(({ name }) => name);
  if (missing.length === 0) return undefined;
  const because = `not in the install's registry yet: ${missing.join(", ")}`;
  return { component: want.name, because, endsWhen: "the sync has brought it" };
}
