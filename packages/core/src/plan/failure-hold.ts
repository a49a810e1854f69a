// What a component's last failure has to say about trying again.

import type { ComponentOperation, LastFailure } from "../consequence/failed-attempts.ts";
import { unreachable } from "../failure.ts";
import type { ComponentName, Digest } from "../ids.ts";
import { atTime, byNewerRelease, type Hold } from "./hold.ts";
import type { PlanContext } from "./plan-context.ts";
import { askForRetry, decideRetry } from "./retry.ts";

/** Undefined when nothing stands in the way: no failure, one of something else, or its time has come. */
export function failureHold(
  component: ComponentName,
  failure: LastFailure | undefined,
  deployKey: Digest,
  operations: readonly ComponentOperation[],
  context: PlanContext,
): Hold | undefined {
  if (!failure || !operations.includes(failure.operation)) return undefined;
  if (failure.key !== undefined && failure.key !== deployKey) return undefined;

  const retry = decideRetry(failure, context.now);
  const failed = `${failure.operation} failed (${failure.code}): ${failure.message}`;
  switch (retry.kind) {
    case "now":
      return undefined;
    case "later":
      return { component, because: failed, ...atTime(retry.until) };
    case "not-by-itself": {
      const isLeaving = failure.operation === "destroy";
      if (failure.code === "downgrade" && !isLeaving) {
        // A server that was set back has forgotten the release its agent will not go behind.
        return { component, because: failed, ...byNewerRelease(context) };
      }
      const end = askForRetry(context, isLeaving ? undefined : "what is deployed changes");
      return { component, because: `${failed}; ${retry.because}`, ...end };
    }
    default:
      return unreachable(retry);
  }
}
