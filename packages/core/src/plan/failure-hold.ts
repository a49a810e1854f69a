// What a component's last failure has to say about trying again.

import type { ComponentOperation, LastFailure } from "../consequence/failed-attempts.ts";
import { unreachable } from "../failure.ts";
import type { ComponentName, Digest } from "../ids.ts";
import type { PlanContext } from "./plan-context.ts";
import type { Hold } from "./plan-install.ts";
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
      return {
        component,
        because: failed,
        endsWhen: `it is tried again at ${new Date(retry.until).toISOString()}`,
        until: retry.until,
      };
    case "not-by-itself": {
      const ask = askForRetry(context);
      const endsWhen =
        failure.operation === "destroy" ? ask : `what is deployed changes, or ${ask}`;
      return { component, because: `${failed}; ${retry.because}`, endsWhen };
    }
    default:
      return unreachable(retry);
  }
}
