// Decides what to do next for one install, from two facts: what is wanted and what is there.
//
// The plan is level-based. It never looks at the event that woke it up, so it may run twice, late,
// or after a crash, and the answer is the same. Every decision carries its reason, and whatever is
// not happening has a hold that says why and what would end it.

import { type ComponentName, type ComponentType, type Digest, Instant } from "../ids.ts";
import type { ArtifactRef } from "../manifest/manifest.ts";
import { decideDestroy } from "./decide-destroy.ts";
import { decideSync } from "./decide-sync.ts";
import { decideWanted } from "./decide-wanted.ts";
import { byCommand, type Hold } from "./hold.ts";
import type { Seen, SeenAgent, Wanted } from "./install-state.ts";
import { createPlanContext, type PlanContext } from "./plan-context.ts";

export interface PlanInput {
  readonly wanted: Wanted;
  readonly seen: Seen;
  readonly now: Instant;
}

export interface InstallPlan {
  readonly steps: readonly Step[];
  readonly holds: readonly Hold[];
  /** When waiting alone changes something that no hold speaks of. */
  readonly wakeAt?: Instant;
}

export type Step = SyncStep | ComponentStep;

export interface SyncStep {
  readonly kind: "sync";
  readonly materials: readonly (ArtifactRef & { readonly name: string })[];
  /** The image that does it, which the install already has. */
  readonly runner: ArtifactRef;
  /** The same materials have the same key: kept with a failure, so that it counts only for them. */
  readonly key: Digest;
  readonly because: string;
}

export interface ComponentStep {
  readonly kind: "plan" | "apply" | "destroy";
  readonly component: ComponentName;
  readonly type: ComponentType;
  readonly plugin: ArtifactRef;
  readonly artifact?: ArtifactRef;
  readonly config: Readonly<Record<string, unknown>>;
  readonly dependsOn: readonly ComponentName[];
  /** What this deploys; for a destroy, what it takes down. */
  readonly deployKey: Digest;
  /** For an apply of a plannable component: the plan it carries out, and no other. */
  readonly plan?: Digest;
  /** Which repair in a row this is, where nothing but the component's health asks for it. */
  readonly repair?: number;
  /** What is there is applied once more, by the release it is from, whatever is wanted. */
  readonly isAsIs?: boolean;
  readonly because: string;
}

export type Decision =
  | { readonly step: Step; readonly hold?: never; readonly wakeAt?: never }
  | { readonly hold: Hold; readonly step?: never; readonly wakeAt?: never }
  /** Nothing to do and nothing to say before then. */
  | { readonly wakeAt: Instant; readonly step?: never; readonly hold?: never };

export function planInstall({ wanted, seen, now }: PlanInput): InstallPlan {
  const context = createPlanContext(wanted, seen, now);
  const decisions = [
    decideSync(context),
    ...context.wanted.map((component) => decideWanted(component, context)),
    ...context.leftovers.map((name) => decideDestroy(name, context)),
  ];
  const wakes = decisions.flatMap((decision) => decision?.wakeAt ?? []);
  const plan: InstallPlan = {
    steps: decisions.flatMap((decision) => decision?.step ?? []),
    holds: decisions.flatMap((decision) => decision?.hold ?? []),
    ...(wakes.length > 0 ? { wakeAt: Instant.parse(Math.min(...wakes)) } : {}),
  };
  return seen.agent.status === "online" ? plan : withoutAgent(plan, seen.agent, context);
}

/**
 * Nothing is piled up for an agent that is away: when it is back, everything may look different. One
 * that was there is missed even when nothing is to be done: nobody looks at what is deployed. It may
 * come back by itself; setup is what brings one back that cannot.
 */
function withoutAgent(
  plan: InstallPlan,
  agent: Exclude<SeenAgent, { status: "online" }>,
  { install, wanted }: Pick<PlanContext, "install" | "wanted">,
): InstallPlan {
  const isIdle = plan.steps.length === 0 && plan.holds.length === 0;
  if (isIdle && !(wanted.length > 0 && agent.status === "offline")) return plan;
  return { steps: [], holds: [agentHold(agent, install)] };
}

export function agentHold(agent: Exclude<SeenAgent, { status: "online" }>, install: string): Hold {
  const isNew = agent.status === "never";
  const because = isNew
    ? "the install's agent has never connected"
    : `the agent is offline since ${new Date(agent.since).toISOString()}`;
  const back = `the agent connects${isNew ? "" : " again"}`;
  const setup = `exclave install setup ${install}`;
  return { because, ...byCommand(setup, "starts it anew", back) };
}
