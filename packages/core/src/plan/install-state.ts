// The two facts the planner compares: what is wanted of one install, and what is there.

import type { Repair } from "../app/app-config.ts";
import type {
  ComponentOperation,
  FailedAttempts,
  LastFailure,
} from "../consequence/failed-attempts.ts";
import type { ComponentName, ComponentType, Digest, InstallName, Instant, JobId } from "../ids.ts";
import type { Risk } from "../job/job-line.ts";
import type { JobStatus } from "../job/job-state.ts";
import type { ArtifactRef } from "../manifest/manifest.ts";

export interface Wanted {
  readonly install: InstallName;
  /** The app's name and the channel it follows: who has to make another release is told so. */
  readonly app: string;
  readonly channel: string;
  readonly mode: "present" | "destroyed";
  /** What the components come from; shown in reasons. */
  readonly release?: string;
  /** The release's signed index: nothing of it runs before this is in the install's registry. */
  readonly index?: ArtifactRef;
  readonly runner: ArtifactRef;
  readonly components: readonly WantedComponent[];
  /** Components somebody said may go, though they are deployed and no longer wanted. */
  readonly allowDestroy: ReadonlySet<ComponentName>;
}

export interface WantedComponent {
  readonly name: ComponentName;
  readonly type: ComponentType;
  readonly artifact?: ArtifactRef;
  readonly plugin: ArtifactRef;
  /** As the vendor wrote it, expressions unevaluated. */
  readonly config: Readonly<Record<string, unknown>>;
  /** The values of the inputs its configuration uses, by name. */
  readonly inputs: Readonly<Record<string, unknown>>;
  /** Components whose outputs its configuration uses. */
  readonly references: readonly ComponentName[];
  /** Everything that must be deployed before it, references included. */
  readonly dependsOn: readonly ComponentName[];
  /** Whether its plugin can preview an apply. */
  readonly plannable: boolean;
  /** Whether an apply is at most once: it is then never repaired by itself. */
  readonly appliesOnce?: boolean;
  /** health, the default: when it is missing or degraded. auto: drift too. off: never. */
  readonly repair?: Repair;
}

export interface Seen {
  readonly agent: SeenAgent;
  /** What lies in the install's own registry, by `artifactKey`. */
  readonly synced: ReadonlySet<ArtifactKey>;
  /** The runner the install already has, when it is not the wanted one: a sync runs by it. */
  readonly runner?: ArtifactRef;
  readonly activeSync?: { readonly job: JobId; readonly state: JobStatus };
  /** Its `key` is that of the sync step that failed. */
  readonly syncFailure?: FailedAttempts;
  readonly components: ReadonlyMap<ComponentName, SeenComponent>;
}

export type SeenAgent =
  | { readonly status: "online"; readonly since?: Instant }
  | { readonly status: "offline"; readonly since: Instant }
  | { readonly status: "never" };

export function seenAgent({
  agent,
  isAgentOnline,
  watch,
}: {
  readonly agent?: { readonly seenAt: Instant; readonly everConnected: boolean };
  readonly isAgentOnline: boolean;
  readonly watch?: { readonly since: Instant };
}): SeenAgent {
  if (isAgentOnline) return { status: "online", ...(watch ? { since: watch.since } : {}) };
  if (!agent?.everConnected) return { status: "never" };
  return { status: "offline", since: agent.seenAt };
}

export interface SeenComponent {
  /** What the last successful apply left. */
  readonly deployed?: DeployedComponent;
  /**
   * What an apply may have left that has not succeeded: set when its job is made, cleared when one
   * succeeds. The world is then neither the old nor the new, and a destroy has to clean up after it.
   */
  readonly attempted?: DeployedComponent;
  readonly plan?: SeenPlan;
  /** Plan, apply or destroy only: log requests and debug commands do not stand in the way. */
  readonly activeJob?: {
    readonly job: JobId;
    readonly operation: ComponentOperation;
    readonly state: JobStatus;
  };
  /** Its `key` is the deploy key; absent once somebody asked for a retry. */
  readonly lastFailure?: LastFailure;
  /** What is wrong with it though it is deployed; absent while it is well, or nobody knows. */
  readonly ailment?: Ailment;
  /** How often in a row it was applied again because of an ailment, and when the last time. */
  readonly repairs?: { readonly attempts: number; readonly at: Instant };
  /** Who asked for it to be applied again as it is. */
  readonly applyAsked?: string;
}

export interface Ailment {
  readonly kind: "missing" | "degraded" | "drifted" | "forgotten";
  readonly since: Instant;
  readonly because: string;
}

export interface DeployedComponent {
  readonly deployKey: Digest;
  readonly type: ComponentType;
  readonly artifact?: ArtifactRef;
  readonly plugin: ArtifactRef;
  readonly config: Readonly<Record<string, unknown>>;
  readonly dependsOn: readonly ComponentName[];
  /** The signed index of the release it came from: a destroy is checked against it. */
  readonly index?: ArtifactRef;
  /** Whether its plugin can preview an apply. */
  readonly plannable?: boolean;
  /** Whether an apply is at most once. */
  readonly appliesOnce?: boolean;
  /** Tells only whether its outputs changed; absent before they are known. */
  readonly outputsDigest?: string;
}

export interface SeenPlan {
  readonly deployKey: Digest;
  readonly digest: Digest;
  readonly risk: Risk;
  readonly summary: string;
  readonly at: Instant;
}

export type ArtifactKey = string & { readonly artifactKey: unique symbol };

/** A digest in a repository: the same bytes in another repository cannot be pulled from this one. */
export function artifactKey({ repository, digest }: ArtifactRef): ArtifactKey {
  return `${repository}@${digest}` as ArtifactKey;
}
