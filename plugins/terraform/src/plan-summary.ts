// Reads a plan as `show -json` prints it and says in one line what an apply of it would do, how
// risky that is, and what has drifted. Pure: values in, values out.

import { z } from "@exclave/plugin-sdk";

const Change = z.object({ actions: z.array(z.string()) });
const ResourceChange = z.object({ address: z.string(), change: Change });
export const PlanDocument = z.object({
  resource_changes: z.array(ResourceChange).default([]),
  resource_drift: z.array(ResourceChange).default([]),
  output_changes: z.record(z.string(), Change).default({}),
});
export type PlanDocument = z.infer<typeof PlanDocument>;

export interface PlanSummary {
  readonly risk: "none" | "change" | "replace" | "destroy";
  readonly summary: string;
}

export function summarisePlan(plan: PlanDocument): PlanSummary {
  const changes = plan.resource_changes.map(({ change }) => change.actions);
  const count = (action: string) => changes.filter((actions) => actions.includes(action)).length;
  const outputs = Object.values(plan.output_changes).filter(isChange).length;

  const add = count("create");
  const change = count("update");
  const destroy = count("delete");
  const totals = `${add} to add, ${change} to change, ${destroy} to destroy`;
  const onlyOutputs = add + change + destroy === 0 && outputs > 0;
  return {
    risk: riskOf(changes, outputs),
    summary: onlyOutputs ? `${totals}; ${plural(outputs, "output")} to change` : totals,
  };
}

function riskOf(changes: readonly string[][], outputs: number): PlanSummary["risk"] {
  const isReplaced = (actions: string[]) =>
    actions.includes("delete") && actions.includes("create");
  if (changes.some((actions) => actions.includes("delete") && !isReplaced(actions))) {
    return "destroy";
  }
  if (changes.some(isReplaced)) return "replace";
  const isNothing = changes.every((actions) => !isChange({ actions })) && outputs === 0;
  return isNothing ? "none" : "change";
}

/** What differs between the state and the world; undefined when nothing does. */
export function summariseDrift(plan: PlanDocument): string | undefined {
  const drifted = plan.resource_drift.filter(({ change }) => isChange(change));
  if (drifted.length === 0) return undefined;
  const what = drifted.map(
    ({ address, change }) =>
      `${address} ${change.actions.includes("delete") ? "is gone" : "was changed"}`,
  );
  const shown = what.slice(0, 5).join(", ");
  const rest = what.length > 5 ? ` and ${what.length - 5} more` : "";
  return `changed outside Exclave: ${shown}${rest}`;
}

/** Reading a data source changes nothing. */
function isChange({ actions }: z.infer<typeof Change>): boolean {
  return actions.some((action) => action !== "no-op" && action !== "read");
}

function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
