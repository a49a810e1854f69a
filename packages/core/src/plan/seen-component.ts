// What the planner sees of a component, from what is remembered of it.

import type { ComponentRecord, Trace } from "../consequence/component-end.ts";
import type { HealthNow, HealthRecord } from "../consequence/health.ts";
import type { Ailment, DeployedComponent, SeenComponent } from "./install-state.ts";

export function seenComponent<Deployed extends Trace>(
  record: ComponentRecord<Deployed>,
  asSeen: (trace: Deployed) => DeployedComponent,
  health: HealthNow,
): Omit<SeenComponent, "activeJob"> {
  const { deployed, attempted, outputsDigest, plan, lastFailure, repairs, applyAsked } = record;
  const ailment = ailmentOf(record, health);
  const outputs = outputsDigest === null ? {} : { outputsDigest };
  return {
    ...(deployed ? { deployed: { ...asSeen(deployed), ...outputs } } : {}),
    ...(attempted ? { attempted: asSeen(attempted) } : {}),
    ...(plan ? { plan } : {}),
    ...(lastFailure ? { lastFailure } : {}),
    ...(ailment ? { ailment } : {}),
    ...(repairs ? { repairs } : {}),
    ...(applyAsked === null ? {} : { applyAsked }),
  };
}

/** Drift counts as long as the word on health does: both come from the same look. */
function ailmentOf(record: HealthRecord, { health, because, since }: HealthNow) {
  if (health === "unknown" || since === null) return undefined;
  const { drift, driftSince } = record;
  if (drift?.found && driftSince !== null && health !== "missing") {
    return { kind: "drifted", since: driftSince, because: drift.summary } satisfies Ailment;
  }
  return health === "healthy" ? undefined : ({ kind: health, since, because } satisfies Ailment);
}
