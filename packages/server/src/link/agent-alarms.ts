// What an agent noticed last, kept with it for people to see. One of a kind and few in all: every alarm
// is on record, this is only what `install show` shows.

import type { AgentEvent } from "@exclave/api";
import type { Instant } from "@exclave/core";
import type { AgentRow } from "../store/rows.ts";

type Alarm = AgentRow["alarms"][number];

export const ALARMS_KEPT_MAX = 8;

/** The newest of its code counts; above the limit the oldest goes. */
export function keepAlarm(
  alarms: readonly Alarm[],
  { code, because }: Pick<Extract<AgentEvent, { type: "alarm" }>, "code" | "because">,
  at: Instant,
): Alarm[] {
  const others = alarms.filter((alarm) => alarm.code !== code);
  return [...others, { at, code, because }].slice(-ALARMS_KEPT_MAX);
}
