// What an agent remembers about releases: the statements it verified, the highest release each
// install was directed to, and which release each component is or may be deployed from. A setup
// agent serves many installs, so all but the statements is kept by install.

import { Digest, type ReleaseFloor, StatementEnvelope } from "@exclave/core";
import { z } from "zod";

/** A statement that was verified before it was written here. */
export const KeptStatement = z.object({
  /** The index it is about. */
  index: Digest,
  /** The referrer it was found in, which a sync brings along. */
  artifact: Digest,
  envelope: StatementEnvelope,
});
export type KeptStatement = z.infer<typeof KeptStatement>;

export interface ReleaseFacts {
  readonly floor?: ReleaseFloor | undefined;
  /** By component: the release that was applied, and one that was tried since. */
  readonly deployed: ReadonlyMap<string, readonly Digest[]>;
}

export type ReleaseWrite =
  | ({ readonly kind: "statement" } & KeptStatement)
  | ({ readonly kind: "release_floor"; readonly install: string } & ReleaseFloor & {
        readonly index: Digest;
      })
  /** An apply is about to be launched: whatever it leaves is of that release. */
  | {
      readonly kind: "deploying" | "deployed";
      readonly install: string;
      readonly component: string;
      readonly index: Digest;
    }
  | { readonly kind: "undeployed"; readonly install: string; readonly component: string }
  /** Everything of that install is gone. */
  | { readonly kind: "release_forgotten"; readonly install: string };

export interface ReleaseMemory {
  statement(index: Digest): KeptStatement | undefined;
  /** Newest first. */
  statements(): readonly KeptStatement[];
  releases(install: string): ReleaseFacts;
}

/** Beside those that something is deployed from or held to, this many statements are kept. */
export const STATEMENTS_MAX = 20;

const KINDS: ReadonlySet<string> = new Set([
  "statement",
  "release_floor",
  "deploying",
  "deployed",
  "undeployed",
  "release_forgotten",
] satisfies ReleaseWrite["kind"][]);

export function isReleaseWrite(entry: { readonly kind: string }): entry is ReleaseWrite {
  return KINDS.has(entry.kind);
}
