// What is remembered of one component of an install, and what the end of one of its jobs makes of
// it. The server's rows have this shape; the planner's property tests run the same functions.

import type { Digest, Instant } from "../ids.ts";
import type { Risk } from "../job/job-line.ts";
import type { SeenPlan } from "../plan/install-state.ts";
import {
  type ComponentOperation,
  countComponentFailure,
  failureAfterSuccess,
  type LastFailure,
} from "./failed-attempts.ts";
import { type HealthRecord, NO_HEALTH, recordHealth } from "./health.ts";
import type { JobFailure } from "./job-failure.ts";

/** What an apply leaves: at least what identifies the deploy. */
export interface Trace {
  readonly deployKey: Digest;
  readonly type: string;
}

export interface ComponentRecord<Deployed extends Trace> extends HealthRecord {
  readonly type: string;
  readonly deployed: Deployed | null;
  /** What an apply may have left that has not succeeded: set with its job, cleared by a success. */
  readonly attempted: Deployed | null;
  readonly plan: SeenPlan | null;
  readonly lastFailure: LastFailure | null;
  /** How often in a row it was applied again because it was not well, and when the last time. */
  readonly repairs: { readonly attempts: number; readonly at: Instant } | null;
  /** Who asked for it to be applied again as it is; cleared when that is done. */
  readonly applyAsked: string | null;
  readonly outputs: Readonly<Record<string, unknown>>;
  readonly outputsDigest: string | null;
}

/** A component of which nothing is there yet. */
export function emptyComponentRecord(type: string): ComponentRecord<never> {
  return {
    type,
    deployed: null,
    attempted: null,
    plan: null,
    lastFailure: null,
    ...NO_HEALTH,
    repairs: null,
    applyAsked: null,
    outputs: {},
    outputsDigest: null,
  };
}

/** Why a job of a component exists. */
export type ComponentPurpose<Deployed extends Trace> =
  | { readonly kind: "plan"; readonly deployKey: Digest; readonly type: string }
  | { readonly kind: "apply"; readonly deployed: Deployed }
  | { readonly kind: "destroy" };

export interface ComponentJobEnd<Deployed extends Trace> {
  readonly purpose: ComponentPurpose<Deployed>;
  readonly at: Instant;
  readonly failure?: JobFailure | undefined;
  /** What a plan's job said. */
  readonly plan?:
    | { readonly digest: Digest; readonly risk: Risk; readonly summary: string }
    | undefined;
  readonly outputs?:
    | readonly { readonly name: string; readonly sensitive: boolean; readonly value?: unknown }[]
    | undefined;
  readonly outputsDigest?: string | undefined;
}

/** The component after one of its jobs was made: an apply may leave something from now on. */
export function beginComponentJob<Deployed extends Trace, Row extends ComponentRecord<Deployed>>(
  row: Row,
  purpose: ComponentPurpose<Deployed>,
  { at, repair }: { readonly at: Instant; readonly repair?: number | undefined },
): Row {
  if (purpose.kind !== "apply") return row;
  const { deployed: attempted } = purpose;
  // A retry of a repair that failed is no new deploy: the count goes on.
  const counted = row.deployed?.deployKey === attempted.deployKey ? row.repairs : null;
  const repairs = repair === undefined ? counted : { attempts: repair, at };
  return { ...row, attempted, repairs, applyAsked: null };
}

/** The component after one of its jobs ended; undefined when nothing of it is left. */
export function endComponentJob<Deployed extends Trace, Row extends ComponentRecord<Deployed>>(
  row: Row,
  end: ComponentJobEnd<Deployed>,
): Row | undefined {
  const { purpose, failure, at } = end;
  const operation: ComponentOperation = purpose.kind;
  if (failure) {
    const key = keyOf(purpose);
    const lastFailure = countComponentFailure(row.lastFailure, operation, key, failure, at);
    // A plan that could not be applied is spent: the world has moved, or it is only half done.
    const plan = purpose.kind === "apply" ? null : row.plan;
    return { ...row, plan, lastFailure };
  }
  if (purpose.kind === "destroy") return undefined;
  if (purpose.kind === "apply") return applied(row, purpose.deployed, end);
  const plan = end.plan ? { ...end.plan, deployKey: purpose.deployKey, at } : null;
  return { ...row, plan, lastFailure: failureAfterSuccess(row.lastFailure, operation) };
}

export interface ComponentDoubt<Deployed extends Trace> {
  readonly at: Instant;
  readonly message: string;
  /** Whether an apply may run again without somebody's word. */
  readonly mayRepeat: boolean;
  /** What may be there where the record says nothing. */
  readonly trace?: Deployed | null | undefined;
}

/** The component once its record is known to be wrong: an apply makes it true, unless that must not be repeated. */
export function doubtComponent<Deployed extends Trace, Row extends ComponentRecord<Deployed>>(
  row: Row,
  { at, message, mayRepeat, trace }: ComponentDoubt<Deployed>,
): Row {
  const failure = { code: "lost", message, mayRepeat } as const;
  const lastFailure = countComponentFailure(null, "apply", undefined, failure, at);
  return { ...row, attempted: row.attempted ?? row.deployed ?? trace ?? null, lastFailure };
}

function applied<Deployed extends Trace, Row extends ComponentRecord<Deployed>>(
  row: Row,
  deployed: Deployed,
  { at, outputs = [], outputsDigest }: ComponentJobEnd<Deployed>,
): Row {
  const shown = outputs.filter(({ sensitive }) => !sensitive);
  const because = "applied, and not looked at yet";
  const news = { health: "unknown", because, drift: null, source: "job", at } as const;
  return {
    ...recordHealth(row, news),
    type: deployed.type,
    deployed,
    attempted: null,
    plan: null,
    lastFailure: null,
    outputs: Object.fromEntries(shown.map(({ name, value }) => [name, value])),
    outputsDigest: outputsDigest ?? null,
  };
}

function keyOf<Deployed extends Trace>(purpose: ComponentPurpose<Deployed>): Digest | undefined {
  if (purpose.kind === "plan") return purpose.deployKey;
  return purpose.kind === "apply" ? purpose.deployed.deployKey : undefined;
}
