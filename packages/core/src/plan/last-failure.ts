// How a component's last failure follows from how its jobs end: what is counted together, and what
// clears the count. Kept here because giving up depends on it.

import type { ComponentOperation, LastFailure } from "./install-state.ts";

/** Failures of one key count in a row; a plan and its apply are two halves of one attempt to deploy. */
export function recordFailure(
  previous: LastFailure | undefined,
  failed: Omit<LastFailure, "attempts">,
): LastFailure {
  const isSame =
    previous !== undefined &&
    previous.deployKey === failed.deployKey &&
    (previous.operation === "destroy") === (failed.operation === "destroy");
  return { ...failed, attempts: isSame ? previous.attempts + 1 : 1 };
}

/**
 * What is left of a failure after a success. A plan that works says nothing about the apply: were the
 * count cleared, an apply that always fails would be planned and tried without end.
 */
export function recordSuccess(
  previous: LastFailure | undefined,
  operation: ComponentOperation,
): LastFailure | undefined {
  return operation === "plan" && previous?.operation === "apply" ? previous : undefined;
}
