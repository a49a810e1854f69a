// Holds an apply to its plan: the same content, and a cluster in which it leads to the same changes.

import { createHash } from "node:crypto";
import { Failure } from "@exclave/core";

/** Refuses where an apply of the plan would do other things than were shown; both are change facts. */
export function checkChanges(planned: readonly string[], found: readonly string[]): void {
  const [first] = [
    ...found.filter((change) => !planned.includes(change)),
    ...planned.filter((change) => !found.includes(change)),
  ];
  if (first === undefined) return;
  const [, object] = JSON.parse(first) as string[];
  throw stalePlan(`${object} was changed in the cluster`);
}

export function stalePlan(why: string): Failure {
  return new Failure("conflict", `this is not what was planned: ${why}; plan again`);
}

/** Of any JSON; keys in order, so that the same values have the same digest. */
export function digestOf(value: unknown): string {
  const text = JSON.stringify(value, (_, inner: unknown) =>
    typeof inner === "object" && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
  return `sha256:${createHash("sha256").update(text).digest("hex")}`;
}
