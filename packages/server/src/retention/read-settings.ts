// How long things are kept, as it is said in the environment: whole days, or `forever`.

import { Failure } from "@exclave/core";
import type { RetentionSettings } from "./retention-rules.ts";

const DAY_MS = 24 * 60 * 60_000;
const DAYS_MAX = 36_500;

export const KEEP_JOBS_VARIABLE = "EXCLAVE_KEEP_JOBS_DAYS";
export const KEEP_RELEASES_VARIABLE = "EXCLAVE_KEEP_RELEASES_DAYS";

export function readRetention(
  environment: Readonly<Record<string, string | undefined>>,
): Partial<RetentionSettings> {
  const jobsMs = daysIn(environment, KEEP_JOBS_VARIABLE);
  const releasesMs = daysIn(environment, KEEP_RELEASES_VARIABLE);
  return {
    ...(jobsMs === undefined ? {} : { jobsMs }),
    ...(releasesMs === undefined ? {} : { releasesMs }),
  };
}

function daysIn(
  environment: Readonly<Record<string, string | undefined>>,
  name: string,
): number | undefined {
  const text = environment[name];
  if (text === undefined || text === "") return undefined;
  if (text === "forever") return Infinity;
  const days = Number(text);
  if (Number.isInteger(days) && days >= 1 && days <= DAYS_MAX) return days * DAY_MS;
  throw new Failure(
    "invalid",
    `${name} is ${JSON.stringify(text)}; it has to be a number of days from 1 to ${DAYS_MAX}, or forever`,
  );
}
