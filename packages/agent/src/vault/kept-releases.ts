// What the vault keeps of an install's releases beside the journal: the floor below which nothing is
// directed, and which release each component is or may be deployed from. Without it, a lost journal
// would let an older release in, and refuse to destroy what was deployed from one.

import { Digest, type ReleaseFloor, unreachable } from "@exclave/core";
import { z } from "zod";
import type { ReleaseFacts, ReleaseWrite } from "../journal/release-memory.ts";

export const KeptReleases = z.object({
  floor: z.object({ number: z.int().nonnegative(), numberMin: z.int().nonnegative() }).optional(),
  deployed: z.record(z.string(), z.array(Digest)),
});
export type KeptReleases = z.infer<typeof KeptReleases>;

type InstallWrite = Exclude<ReleaseWrite, { readonly kind: "statement" }>;

/** Undefined when nothing of that install is to be kept any more. */
export function keepRelease(
  before: KeptReleases = { deployed: {} },
  write: InstallWrite,
): KeptReleases | undefined {
  const { deployed } = before;
  switch (write.kind) {
    case "release_floor": {
      const { number, numberMin } = write;
      return { ...before, floor: { number, numberMin } };
    }
    case "deploying": {
      // What was applied before, and what is tried now.
      const [applied] = deployed[write.component] ?? [];
      const digests = new Set([...(applied ? [applied] : []), write.index]);
      return { ...before, deployed: { ...deployed, [write.component]: [...digests] } };
    }
    case "deployed":
      return { ...before, deployed: { ...deployed, [write.component]: [write.index] } };
    case "undeployed": {
      const { [write.component]: _, ...rest } = deployed;
      return { ...before, deployed: rest };
    }
    case "release_forgotten":
      return undefined;
    default:
      return unreachable(write);
  }
}

/** The journal's word where it has one; the vault's for what a lost journal had. */
export function mergeReleases(journal: ReleaseFacts, kept: KeptReleases | undefined): ReleaseFacts {
  if (!kept) return journal;
  const floor = higher(journal.floor, kept.floor);
  return {
    ...(floor && { floor }),
    deployed: new Map([...Object.entries(kept.deployed), ...journal.deployed]),
  };
}

function higher(
  one: ReleaseFloor | undefined,
  other: ReleaseFloor | undefined,
): ReleaseFloor | undefined {
  if (!one || !other) return one ?? other;
  return one.number >= other.number ? one : other;
}
