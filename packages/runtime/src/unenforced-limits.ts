// What a job's log says of limits that its runtime does nothing about. The default of a limit is nobody's wish
// and needs no word; somebody who asked for another figure is told that it does not hold here.

import { DEFAULT_LIMITS, type Limits } from "@exclave/core";
import type { LimitEnforcement } from "./job-runtime.ts";

export function unenforcedLimits(
  runtime: string,
  enforces: LimitEnforcement,
  limits: Limits,
): string[] {
  const names = Object.keys(DEFAULT_LIMITS) as (keyof Limits)[];
  return names.flatMap((name) => {
    const figure = limits[name];
    const isAsked = figure !== undefined && figure !== DEFAULT_LIMITS[name];
    if (enforces[name] !== "none" || !isAsked) return [];
    return [`limits.${name} is ${figure}, and the ${runtime} runtime does not enforce it`];
  });
}
