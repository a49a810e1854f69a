// Apps, their installs, and what is known of each component of one.

import {
  AppId,
  ArtifactRef,
  Deployed,
  Digest,
  FailedAttempts,
  HEALTH_FIELDS,
  InstallId,
  Instant,
  LastFailure,
} from "@exclave/core";
import { z } from "zod";
import { Trace } from "../../traces/trace-context.ts";
import { Plan } from "./job-rows.ts";

export const ComponentRow = z.object({
  install: InstallId,
  name: z.string(),
  type: z.string(),
  deployed: Deployed.nullable(),
  /** What an apply may have left that has not succeeded: set with its job, cleared by a success. */
  attempted: Deployed.nullable(),
  plan: Plan.extend({ deployKey: Digest, at: Instant }).nullable(),
  lastFailure: LastFailure.nullable(),
  ...HEALTH_FIELDS,
  repairs: z.object({ attempts: z.int().positive(), at: Instant }).nullable().default(null),
  /** Who asked for it to be applied again as it is. */
  applyAsked: z.string().nullable().default(null),
  outputs: z.record(z.string(), z.unknown()),
  outputsDigest: z.string().nullable(),
  /** When a status job was last issued because nobody looked at it. */
  watchAskedAt: Instant.nullable().default(null),
});

export type ComponentRow = z.infer<typeof ComponentRow>;

export const AppRow = z.object({
  id: AppId,
  /** One app at a time has it. */
  name: z.string(),
  createdAt: Instant,
});

export type AppRow = z.infer<typeof AppRow>;

export const InstallRow = z.object({
  id: InstallId,
  /** One install at a time has it; after a forget another may. */
  name: z.string(),
  app: AppId,
  appName: z.string(),
  channel: z.string(),
  /** Set when somebody asked for one release by name; the channel counts otherwise. */
  pinnedRelease: z.string().nullable(),
  sandbox: z.string(),
  /** What the sandbox's own plugin is told; the server reads nothing in it. */
  sandboxConfig: z.record(z.string(), z.unknown()),
  inputs: z.record(z.string(), z.unknown()),
  mode: z.enum(["present", "destroyed"]),
  /** attempted: a setup was begun, so there may be something to take down. */
  sandboxState: z.enum(["absent", "attempted", "present", "destroyed"]),
  sandboxFailure: FailedAttempts.nullable(),
  /** Why the setup is to run once more, although it was done before. */
  setupWanted: z.string().nullable().default(null),
  /** When the last setup ended well. */
  setUpAt: Instant.nullable().default(null),
  /** The last look at a sandbox whose agent was gone, and the setups that followed in a row. */
  sandboxLook: z.object({ at: Instant, setups: z.int().nonnegative() }).nullable().default(null),
  /** Components whose removal somebody asked for by name. */
  allowDestroy: z.array(z.string()),
  /** What lies in the install's own registry. */
  synced: z.array(ArtifactRef),
  /** The newest runner it has. */
  runner: ArtifactRef.nullable(),
  syncFailure: FailedAttempts.nullable(),
  /** Its agent runs something of a release this server has no record of. */
  unknownRelease: z
    .object({ release: z.string(), component: z.string(), at: Instant })
    .nullable()
    .default(null),
  /** The release its sandbox was set up from: its statement is what a teardown goes by. */
  setUpRelease: z.string().nullable().default(null),
  /** The highest release it was ever directed to, and how far back that one lets it go. */
  releaseFloor: z
    .object({ release: z.string(), number: z.int(), numberMin: z.int() })
    .nullable()
    .default(null),
  requestedBy: z.string(),
  /** Of the last request. */
  trace: Trace.nullable().default(null),
  /** Rises with every write: a decision is committed only against what it was decided on. */
  revision: z.int().nonnegative(),
  createdAt: Instant,
});

export type InstallRow = z.infer<typeof InstallRow>;

/** What a list shows of an install, as it was decided then. Read by whoever shows it: a later version may show more. */
export const ShownInstallRow = z.object({ install: InstallId, at: Instant, view: z.unknown() });

export type ShownInstallRow = z.infer<typeof ShownInstallRow>;
