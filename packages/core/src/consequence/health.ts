// Health with an age and a source. What is stored is the last word and when it was said; what is
// shown and acted on is that word as long as somebody still looks, and `unknown` after that.

import { z } from "zod";
import { Instant } from "../ids.ts";
import { Health } from "../job/job-line.ts";
import type { SeenAgent } from "../plan/install-state.ts";

/** agent: its own look by the schedule. job: an apply, or a status somebody asked for. */
export const HealthSource = z.enum(["agent", "job"]);
export type HealthSource = z.infer<typeof HealthSource>;

export const Drift = z.object({ found: z.boolean(), summary: z.string() });
export type Drift = Readonly<z.infer<typeof Drift>>;

/** Zod fields, so that a row can take them as they are. Rows of before have none of the times. */
export const HEALTH_FIELDS = {
  health: Health,
  healthBecause: z.string(),
  drift: Drift.nullable(),
  /** When that was last said. */
  healthAt: Instant.nullable().default(null),
  healthSource: HealthSource.nullable().default(null),
  /** Since when it is as bad, or as good, as it is. */
  healthSince: Instant.nullable().default(null),
  driftSince: Instant.nullable().default(null),
};
const HealthRecord = z.object(HEALTH_FIELDS);
export type HealthRecord = Readonly<z.infer<typeof HealthRecord>>;

export const NO_HEALTH: HealthRecord = {
  health: "unknown",
  healthBecause: "not deployed yet",
  drift: null,
  healthAt: null,
  healthSource: null,
  healthSince: null,
  driftSince: null,
};

export interface HealthNews {
  readonly health: Health;
  readonly because: string;
  readonly drift: Drift | null;
  readonly source: HealthSource;
  readonly at: Instant;
}

/** The record after somebody said how the component is. */
export function recordHealth<Row extends HealthRecord>(row: Row, news: HealthNews): Row {
  const { health, because, drift, source, at } = news;
  const isSame = row.health === health && row.healthSince !== null;
  return {
    ...row,
    health,
    healthBecause: because,
    drift,
    healthAt: at,
    healthSource: source,
    healthSince: isSame ? row.healthSince : at,
    driftSince: drift?.found ? (row.driftSince ?? at) : null,
  };
}

/** What is known about whoever looks at a component. */
export interface Watch {
  readonly agent: SeenAgent;
  /** How often it is to be looked at; absent when its plugin cannot tell its status. */
  readonly everyMs?: number | undefined;
  /** When the agent last looked, as it said on this connection. */
  readonly lookedAt?: Instant | undefined;
}

export interface HealthNow {
  readonly health: Health;
  readonly because: string;
  /** Since when that is so; for `unknown`, since when nothing is known. */
  readonly since: Instant | null;
  /** The last time somebody looked. */
  readonly at: Instant | null;
  readonly source: HealthSource | null;
}

/** Missed looks after which the last word counts no more, and never less than this long. */
const LOOKS_MISSED_MAX = 3;
const NEWS_MS_MIN = 90_000;

export function newsMs(everyMs: number): number {
  return Math.max(everyMs * LOOKS_MISSED_MAX, NEWS_MS_MIN);
}

export function healthNow(row: HealthRecord, watch: Watch, now: Instant): HealthNow {
  const { agent, everyMs } = watch;
  const lookedAt = past(watch.lookedAt, now);
  const at = latest(past(row.healthAt, now) ?? null, lookedAt ?? null);
  const said = {
    health: row.health,
    because: row.healthBecause,
    since: row.healthSince,
    at,
    source: lookedAt === undefined ? row.healthSource : ("agent" as const),
  };
  if (agent.status === "offline") {
    const because = `the agent is offline since ${inWords(agent.since)}${before(row)}`;
    return { ...said, health: "unknown", because, since: agent.since };
  }
  if (everyMs === undefined || agent.status === "never") return said;
  // An agent that has just connected gets the time to look before its silence means anything.
  const heardAt = latest(at, past(agent.since, now) ?? null);
  if (heardAt === null || now - heardAt <= newsMs(everyMs)) return said;
  const because = `nobody has looked at it since ${inWords(at ?? heardAt)}${before(row)}`;
  return { ...said, health: "unknown", because, since: at ?? heardAt };
}

/** When the last word will stop counting, if nobody looks before. */
export function staleAt(row: HealthRecord, watch: Watch): Instant | undefined {
  const { agent, everyMs, lookedAt } = watch;
  if (everyMs === undefined || agent.status !== "online") return undefined;
  const heardAt = latest(latest(row.healthAt, lookedAt ?? null), agent.since ?? null);
  return heardAt === null ? undefined : Instant.parse(heardAt + newsMs(everyMs) + 1);
}

/** A time that lies ahead was written by a clock that was wrong: it is no news. */
function past(at: Instant | null | undefined, now: Instant): Instant | undefined {
  return at === null || at === undefined || at > now ? undefined : at;
}

function before({ health, healthAt }: HealthRecord): string {
  return healthAt === null || health === "unknown" ? "" : `; it was ${health} before`;
}

function inWords(at: Instant): string {
  return new Date(at).toISOString();
}

function latest(one: Instant | null, other: Instant | null): Instant | null {
  if (one === null || other === null) return one ?? other;
  return one > other ? one : other;
}
