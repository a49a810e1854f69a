// Carries an install towards what is wanted: gather, decide, commit. The commit is refused when the
// install changed since it was read; the loop is woken by that change anyway.

import {
  asFailure,
  type InstallId,
  type Instant,
  nextLookAt,
  planStops,
  type SandboxPlan,
} from "@exclave/core";
import { audit, type ServerContext } from "../context.ts";
import { abandonJob } from "../job/abandon-job.ts";
import { cancelJob } from "../job/cancel-job.ts";
import type { InstallRow, JobRow } from "../store/rows.ts";
import type { Tables } from "../store/store.ts";
import { gatherInstall, type InstallFacts } from "./gather-install.ts";
import { decideInstall, type InstallDecision } from "./install-decision.ts";
import { issueSteps } from "./install-jobs.ts";
import { issueSandboxJob, type SandboxJob } from "./sandbox-jobs.ts";
import { issueWatch, planWatches, type WatchPlan } from "./watch-components.ts";

const STOP_GRACE_MS = 10_000;
const BY = "server";

/** Reconciles one install. Returns when waiting alone would change something. */
export async function reconcileInstall(
  context: ServerContext,
  id: InstallId,
): Promise<number | undefined> {
  const { store, now, wake } = context;
  const install = await store.read.installs.get(id);
  if (!install) return undefined;
  const facts = await gatherInstall(context, install);
  const decision = decideInstall(facts, now());
  context.shown.note(facts, decision, now());
  const watches = planWatches(facts, now());

  const { sandbox, steps } = decision;
  context.followers.expect(facts.open);
  for (const job of planStops(facts)) await stop(context, facts, job);
  if (isSandboxJob(sandbox)) {
    await commit(context, facts, (tx) => issueSandboxJob(tx, context, facts, sandbox));
    wake.outbox("setup");
  }
  if (sandbox.kind === "gone") await commit(context, facts, (tx) => seal(tx, context, facts));
  if (steps.length > 0) {
    await commit(context, facts, (tx) => issueSteps(tx, context, facts, steps));
    wake.outbox(id);
  } else if (watches.due.length > 0) {
    await commit(context, facts, async (tx) => {
      for (const row of watches.due) await issueWatch(tx, context, facts, row);
      return facts.install;
    });
    wake.outbox(id);
  }
  return nextChangeAt(facts, decision, watches, now());
}

function isSandboxJob(plan: SandboxPlan): plan is SandboxPlan & SandboxJob {
  return plan.kind === "setup" || plan.kind === "look" || plan.kind === "teardown";
}

function nextChangeAt(
  facts: InstallFacts,
  { holds, wakeAt }: InstallDecision,
  { until }: WatchPlan,
  now: Instant,
): number | undefined {
  const lookAt = nextLookAt(facts);
  const times = [
    ...holds.flatMap((hold) => hold.until ?? []),
    ...(wakeAt === undefined ? [] : [wakeAt]),
    // One that is due and waits for something, such as the setup agent, is woken by that.
    ...(lookAt === undefined || lookAt <= now ? [] : [lookAt]),
    ...(until === undefined ? [] : [until]),
  ];
  return times.length > 0 ? Math.min(...times) : undefined;
}

async function commit(
  { store, live, wake }: ServerContext,
  { install }: InstallFacts,
  work: (tx: Tables) => Promise<InstallRow | undefined>,
): Promise<void> {
  const { id, name } = install;
  const isDone = await store.transaction(async (tx) => {
    const current = await tx.installs.get(id);
    if (current?.revision !== install.revision) return false;
    const changed = await work(tx);
    if (changed) await tx.installs.put({ ...changed, revision: install.revision + 1 });
    return true;
  });
  // Whoever changed it has woken the loop, or will; once more does no harm.
  if (!isDone) return wake.install(id);
  const message = `${name}: the next steps are under way`;
  live.say({ kind: "install", subject: id, install, component: null, message });
}

/** One that has ended in the meantime needs no asking. */
async function stop(
  context: ServerContext,
  { install }: InstallFacts,
  { id }: JobRow,
): Promise<void> {
  try {
    await cancelJob(context, { id, graceMs: STOP_GRACE_MS, by: install.requestedBy });
  } catch (reason) {
    if (asFailure(reason).code !== "conflict") throw reason;
  }
}

/** Everything is gone: the agent may not come back, and what was learnt of it is dropped. */
async function seal(
  tx: Tables,
  context: ServerContext,
  { install, agent, open }: InstallFacts,
): Promise<InstallRow | undefined> {
  const isRevoked = agent === undefined || agent.revokedAt !== null;
  if (install.sandboxState === "destroyed" && isRevoked) return undefined;
  // What somebody asked for ended with the sandbox, and its agent is not there to say so.
  for (const job of open) await abandonJob(tx, context, job, "its install was destroyed");
  if (agent && !isRevoked) {
    await tx.agents.put({ ...agent, revokedAt: context.now() });
    await tx.outbox.clear(install.id);
    await audit(tx, context, {
      actor: BY,
      action: "agent.revoked",
      subject: install.id,
      details: { name: install.name, agent: agent.id, because: "its install was destroyed" },
    });
  }
  return { ...install, sandboxState: "destroyed", synced: [], runner: null };
}
