// Components nobody looks at although they should be: the agent is there and says nothing of them, as after
// it lost its journal and its vault. A status job is issued that carries the schedule; the agent that
// runs it watches the component from then on.

import { ComponentName, ComponentType, type Instant, newsMs, STATUS_EVERY_MS } from "@exclave/core";
import type { ServerContext } from "../context.ts";
import { tryIssueJob } from "../job/issue-job.ts";
import type { ComponentRow } from "../store/rows.ts";
import type { Tables } from "../store/store.ts";
import { healthOf, type InstallFacts } from "./gather-install.ts";

export interface WatchPlan {
  /** What a status job is to be issued for now. */
  readonly due: readonly ComponentRow[];
  /** When one that was asked for before is asked for again. */
  readonly until?: number | undefined;
}

export function planWatches(facts: InstallFacts, now: Instant): WatchPlan {
  const { install, isAgentOnline, components, open } = facts;
  if (install.mode !== "present" || !isAgentOnline) return { due: [] };
  const unwatched = components.filter((row) => isUnwatched(row, facts, now));
  const isBusy = ({ name }: ComponentRow) => open.some(({ component }) => component === name);
  const askAt = ({ watchAskedAt, deployed }: ComponentRow) =>
    // Asked for by a clock that was ahead: nobody knows when that was.
    watchAskedAt === null || watchAskedAt > now
      ? 0
      : watchAskedAt + newsMs(deployed?.statusEveryMs ?? STATUS_EVERY_MS);
  const later = unwatched.map(askAt).filter((at) => at > now);
  return {
    due: unwatched.filter((row) => askAt(row) <= now && !isBusy(row)),
    ...(later.length > 0 && { until: Math.min(...later) }),
  };
}

function isUnwatched(row: ComponentRow, facts: InstallFacts, now: Instant): boolean {
  if (!row.deployed?.effects.status) return false;
  const { health, at } = healthOf(row, facts, now);
  const everyMs = row.deployed.statusEveryMs ?? STATUS_EVERY_MS;
  const heardAt = Math.max(at ?? 0, facts.watch?.since ?? now);
  return health === "unknown" && now - heardAt > newsMs(everyMs);
}

export async function issueWatch(
  tx: Tables,
  context: Pick<ServerContext, "now">,
  { install, indexes }: InstallFacts,
  row: ComponentRow,
): Promise<void> {
  const { deployed } = row;
  if (!deployed?.effects.status) return;
  const { type, plugin, artifact, config, inputs, generatedSecrets, release } = deployed;
  const index = indexes.get(release);
  await tx.components.put({ ...row, watchAskedAt: context.now() });
  await tryIssueJob(tx, context, {
    audience: install.id,
    install,
    release,
    step: {
      operation: "status",
      plugin,
      component: ComponentName.parse(row.name),
      type: ComponentType.parse(type),
      ...(artifact ? { artifact } : {}),
      config,
      parameters: {},
      effect: deployed.effects.status,
      materials: [],
      releases: index ? [index] : [],
    },
    purpose: { kind: "request" },
    inputs,
    generatedSecrets,
    statusEveryMs: deployed.statusEveryMs ?? STATUS_EVERY_MS,
    because: `nobody looks at ${row.name}: its agent lost the schedule`,
    requestedBy: "server",
  });
}
