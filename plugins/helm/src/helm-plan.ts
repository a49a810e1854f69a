// A plan: what was rendered, what it was compared with, and what of that an apply must find unchanged. It
// holds secrets, so it stays in the install like the plans of every plugin.

import { z } from "@exclave/plugin-sdk";
import { digestOf, stalePlan } from "@exclave/plugin-sdk/kubernetes";
import type { Revision } from "./release-state.ts";

export const HelmPlan = z.object({
  version: z.literal(1),
  release: z.string(),
  namespace: z.string(),
  /** The newest revision when it was made; absent where there was no release. */
  base: z.object({ revision: z.int(), status: z.string() }).optional(),
  valuesDigest: z.string(),
  renderedDigest: z.string(),
  /** What it would change, one line each; see changeFacts. */
  changes: z.array(z.string()),
  rendering: z.object({ manifest: z.string(), hooks: z.array(z.string()) }),
});
export type HelmPlan = z.infer<typeof HelmPlan>;

export interface ApplyFacts {
  readonly release: string;
  readonly namespace: string;
  readonly values: unknown;
  /** Newest last. */
  readonly history: readonly Revision[];
}

/** Refuses a plan that was made for something else, or before the release moved on. */
export function checkPlan(plan: HelmPlan, facts: ApplyFacts): void {
  const { release, namespace, base } = plan;
  if (release !== facts.release || namespace !== facts.namespace) {
    throw stalePlan(`it is for the release ${release} in ${namespace}`);
  }
  if (plan.valuesDigest !== digestOf(facts.values)) throw stalePlan("the values are others now");
  if (plan.renderedDigest !== digestOf(plan.rendering))
    throw stalePlan("its rendering was altered");

  const newest = facts.history.at(-1);
  if (newest?.revision !== base?.revision || newest?.status !== base?.status) {
    const now = newest ? `at revision ${newest.revision}, ${newest.status}` : "not there";
    const then = base ? `at revision ${base.revision}, ${base.status}` : "not there";
    throw stalePlan(`the release was ${then} and now is ${now}`);
  }
}
