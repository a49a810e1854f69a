// What to do with a release before it is upgraded. A helm that is killed leaves its release pending, and every
// later upgrade refuses to work; here that is mended first. Pure.

import { z } from "@exclave/plugin-sdk";

/** As `helm history` lists it. */
export const Revision = z.looseObject({ revision: z.int().positive(), status: z.string() });
export type Revision = z.infer<typeof Revision>;

export type Healing = { readonly because: string } & (
  | { readonly kind: "none" }
  /** Nothing was ever whole, so that nothing is lost. */
  | { readonly kind: "uninstall" }
  | { readonly kind: "rollback"; readonly to: number }
  /** Somebody else's helm may be at work. */
  | { readonly kind: "foreign" }
);

export interface HealingFacts {
  /** Newest last. */
  readonly history: readonly Revision[];
  /** Whether the newest revision was begun by a job of this component. */
  readonly isOurs: boolean;
}

export function isPending({ status }: Revision): boolean {
  return status.startsWith("pending-") || status === "uninstalling";
}

export function decideHealing({ history, isOurs }: HealingFacts): Healing {
  const newest = history.at(-1);
  if (!newest) return { kind: "none", because: "there is no release yet" };
  const { revision, status } = newest;
  if (!isPending(newest)) return { kind: "none", because: `revision ${revision} is ${status}` };

  // Only one job of a component runs at a time, so that whichever began this is over.
  const because = `revision ${revision} is ${status}, and the helm that began it is gone`;
  if (status === "uninstalling") return { kind: "uninstall", because };
  if (!isOurs) {
    return {
      kind: "foreign",
      because: `revision ${revision} is ${status} and was not begun by Exclave; wait for it, or end it with helm rollback`,
    };
  }
  const whole = lastWhole(history);
  return whole === undefined
    ? { kind: "uninstall", because }
    : { kind: "rollback", to: whole.revision, because };
}

/** The newest revision that once was whole. */
export function lastWhole(history: readonly Revision[]): Revision | undefined {
  return (
    history.findLast(({ status }) => status === "deployed") ??
    history.findLast(({ status }) => status === "superseded")
  );
}

/** What becomes of a release whose upgrade failed. */
export type AfterFailure =
  | { readonly kind: "rollback"; readonly to: number }
  | { readonly kind: "uninstall" }
  | { readonly kind: "leave" };

export function decideAfterFailure(
  before: readonly Revision[],
  after: readonly Revision[],
): AfterFailure {
  const newest = after.at(-1);
  // The upgrade failed before it touched anything.
  if (!newest || newest.revision === before.at(-1)?.revision) return { kind: "leave" };
  const whole = lastWhole(after);
  return whole ? { kind: "rollback", to: whole.revision } : { kind: "uninstall" };
}
