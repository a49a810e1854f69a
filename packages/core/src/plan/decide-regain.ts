// What to do about a component that is to go, and whose outputs another one needs to go before it: its agent
// has lost them, and an apply of what is there, by the release it is from, gives them out again.

import { usesOf } from "../expression/references.ts";
import type { ComponentName } from "../ids.ts";
import { REPAIRS_MAX } from "./decide-repair.ts";
import { atTime, byCommand, byItself, type Hold } from "./hold.ts";
import type { DeployedComponent } from "./install-state.ts";
import { type PlanContext, traceOf } from "./plan-context.ts";
import type { ComponentStep, Decision } from "./plan-install.ts";
import { decideRetry } from "./retry.ts";

/** Undefined when nobody misses its outputs. */
export function decideRegain(
  component: ComponentName,
  trace: DeployedComponent,
  context: PlanContext,
): Decision | undefined {
  const user = missedBy(component, context);
  if (user === undefined) return undefined;
  const { plan, repairs } = context.there(component);
  const because = `${user} cannot be destroyed without its outputs, and the agent has lost them`;
  const done = repairs?.attempts ?? 0;
  if (trace.appliesOnce || done >= REPAIRS_MAX) {
    const why = trace.appliesOnce
      ? "its apply must not run twice without somebody's word"
      : `${done} applies did not bring them back`;
    return { hold: { component, because: `${because}; ${why}`, ...byForgetting(context) } };
  }
  const hold = failedHold(component, context) ?? unsyncedHold(component, trace, context);
  if (hold) return { hold };

  const { type, plugin, artifact, config, dependsOn, deployKey } = trace;
  const step = { component, type, plugin, config, dependsOn, deployKey, because, isAsIs: true };
  const of: Omit<ComponentStep, "kind"> = artifact ? { ...step, artifact } : step;
  if (!trace.plannable) return { step: { kind: "apply", ...of, repair: done + 1 } };
  if (plan?.deployKey !== deployKey) return { step: { kind: "plan", ...of } };
  return { step: { kind: "apply", ...of, plan: plan.digest, repair: done + 1 } };
}

/** What a destroy that needs lost outputs waits for. */
export function regainHold(component: ComponentName, context: PlanContext): Hold | undefined {
  const { lastFailure } = context.there(component);
  const trace = traceOf(context.there(component));
  if (lastFailure?.code !== "outputs_lost" || !trace) return undefined;
  const because = `destroy failed (${lastFailure.code}): ${lastFailure.message}`;
  for (const name of referencesOf(trace)) {
    if (!traceOf(context.there(name))) {
      const gone = `${because}; ${name} is not there to give it out again`;
      return { component, because: gone, ...byForgetting(context) };
    }
    const { activeJob } = context.there(name);
    const isComing = activeJob && activeJob.operation !== "destroy";
    if (!isComing && missedBy(name, context) === undefined) continue;
    return { component, because, ...byItself(`${name} is applied again`) };
  }
  return undefined;
}

/** Whether an apply is due, so that what it takes has to be in the install's registry. */
export function isMissed(component: ComponentName, context: PlanContext): boolean {
  const trace = traceOf(context.there(component));
  return trace !== undefined && !trace.appliesOnce && missedBy(component, context) !== undefined;
}

/** Who failed for want of its outputs since it was last applied. */
function missedBy(component: ComponentName, context: PlanContext): ComponentName | undefined {
  const givenAt = context.there(component).repairs?.at ?? -1;
  return context.leftovers.find((name) => {
    const { lastFailure } = context.there(name);
    const trace = traceOf(context.there(name));
    if (name === component || !trace || lastFailure?.code !== "outputs_lost") return false;
    return lastFailure.at >= givenAt && referencesOf(trace).includes(component);
  });
}

function referencesOf({ config }: DeployedComponent): readonly ComponentName[] {
  return usesOf(config).components as readonly ComponentName[];
}

/** What does not work out by itself ends here: nothing is deployed any more that could help. */
function failedHold(component: ComponentName, context: PlanContext): Hold | undefined {
  const { lastFailure } = context.there(component);
  if (!lastFailure || lastFailure.operation === "destroy") return undefined;
  const retry = decideRetry(lastFailure, context.now);
  const because = `${lastFailure.operation} failed (${lastFailure.code}): ${lastFailure.message}`;
  if (retry.kind === "now") return undefined;
  if (retry.kind === "later") return { component, because, ...atTime(retry.until) };
  return { component, because: `${because}; ${retry.because}`, ...byForgetting(context) };
}

function unsyncedHold(
  component: ComponentName,
  { plugin, artifact, index }: DeployedComponent,
  context: PlanContext,
): Hold | undefined {
  const refs = [plugin, artifact, index].filter((ref) => ref !== undefined);
  if (refs.every(context.isSynced)) return undefined;
  const because = "what it takes to apply it again is not in the install's registry";
  return { component, because, ...byItself("the sync has brought it") };
}

/** The last resort: whatever is there stays, and the server's rows go. */
function byForgetting({ install }: PlanContext) {
  const forget = `exclave install forget ${install} --force`;
  return byCommand(forget, "leaves what is there as it is and drops its record");
}
