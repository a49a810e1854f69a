// What to do about a component that is deployed as wanted and is not well: apply it again, a few
// times, with backoff, and then ask somebody.

import { Instant } from "../ids.ts";
import { byCommand } from "./hold.ts";
import type { Ailment, SeenComponent, WantedComponent } from "./install-state.ts";
import type { PlanContext } from "./plan-context.ts";
import type { Decision } from "./plan-install.ts";

export const REPAIRS_MAX = 4;
const GRACE_MS: Record<Ailment["kind"], number> = {
  missing: 20_000,
  degraded: 120_000,
  drifted: 20_000,
  forgotten: 0,
};
const PAUSE_FIRST_MS = 60_000;
/** Well for this long after a repair: the next ailment is a new one. */
const FORGOTTEN_AFTER_MS = 3_600_000;

export type RepairDecision =
  /** Which repair it is; absent when somebody asked for it. */
  | { readonly kind: "apply"; readonly repair?: number; readonly because: string }
  | { readonly kind: "decided"; readonly decision: Decision | undefined };

export function decideRepair(
  want: WantedComponent,
  there: SeenComponent,
  context: PlanContext,
): RepairDecision {
  const { applyAsked, repairs } = there;
  const ailment = there.ailment ?? forgottenBy(want, context);
  if (applyAsked !== undefined) return { kind: "apply", because: `${applyAsked} asked for it` };
  if (!ailment || isTolerated(want, ailment)) return decided(undefined);

  // What lies ahead was written by a clock that was wrong: it counts as long past.
  const since = ailment.since > context.now ? 0 : ailment.since;
  const dueAt = Instant.parse(since + GRACE_MS[ailment.kind]);
  if (context.now < dueAt) return decided({ wakeAt: dueAt });

  const is = `it is ${ailment.kind} since ${inWords(ailment.since)}: ${ailment.because}`;
  const component = want.name;
  const apply = `exclave install deploy ${context.install} --component ${component}`;
  const byHand = byCommand(apply, "applies it again");
  const never = neverRepaired(want);
  if (never) {
    return decided({ hold: { component, because: `${is}; ${never}`, ...byHand } });
  }
  const done = isNewAilment(ailment, repairs) ? 0 : (repairs?.attempts ?? 0);
  if (done >= REPAIRS_MAX) {
    const because = `${is}; ${done} repairs did not help`;
    return decided({ hold: { component, because, ...byHand } });
  }
  const lastAt = repairs && repairs.at <= context.now ? repairs.at : 0;
  const nextAt = Instant.parse(Math.max(dueAt, lastAt + repairPauseMs(done)));
  if (context.now < nextAt) {
    const again = `it is applied again at ${inWords(nextAt)}`;
    const either = byCommand(apply, "applies it at once", again);
    return decided({ hold: { component, because: is, ...either, until: nextAt } });
  }
  const repair = done + 1;
  return { kind: "apply", repair, because: `${is}; repair ${repair} of ${REPAIRS_MAX}` };
}

/** Its agent has lost what it gave out, and another component cannot do without: an apply gives it out again. */
function forgottenBy({ name }: WantedComponent, context: PlanContext): Ailment | undefined {
  for (const other of context.wanted) {
    const { lastFailure } = context.there(other.name);
    if (lastFailure?.code !== "outputs_lost" || !other.references.includes(name)) continue;
    // Once the outputs are there again the key is another: they are told apart by a key of the install.
    if (lastFailure.key !== undefined && lastFailure.key !== context.keyOf(other)) continue;
    const because = `${other.name} needs its outputs, and the agent has lost them`;
    return { kind: "forgotten", since: lastFailure.at, because };
  }
  return undefined;
}

/** 1 minute after the first repair, then 3, then 9: what was applied gets the time to come up. */
export function repairPauseMs(done: number): number {
  return done === 0 ? 0 : PAUSE_FIRST_MS * 3 ** (done - 1);
}

function isTolerated(want: WantedComponent, { kind }: Ailment): boolean {
  return kind === "drifted" && want.repair !== "auto";
}

function neverRepaired({ repair, appliesOnce }: WantedComponent): string | undefined {
  if (appliesOnce) return "its apply must not run twice without somebody's word";
  return repair === "off" ? "its app says that it is not repaired by itself" : undefined;
}

function isNewAilment(ailment: Ailment, repairs: SeenComponent["repairs"]): boolean {
  return repairs === undefined || ailment.since - repairs.at >= FORGOTTEN_AFTER_MS;
}

function decided(decision: Decision | undefined): RepairDecision {
  return { kind: "decided", decision };
}

function inWords(at: Instant): string {
  return new Date(at).toISOString();
}
