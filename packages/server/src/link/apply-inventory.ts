// What an inventory changes: jobs the agent had and knows nothing of, and, when this server was set
// back, what the agent applied that the server has no record of.

import type { AgentEvent } from "@exclave/api";
import {
  type AppliedFact,
  advanceJob,
  catchUp,
  type Deployed,
  doubtComponent,
  failureOf,
  type Instant,
  isSettled,
} from "@exclave/core";
import { emptyComponent } from "../install/empty-component.ts";
import type { ChannelRow, ComponentRow, InstallRow, JobRow, ReleaseRow } from "../store/rows.ts";
import {
  type AgentEventFacts,
  type AgentEventWrites,
  type InventoryFacts,
  writes,
} from "./agent-event-writes.ts";
import { bump, consequences } from "./job-consequences.ts";

type Inventory = Extract<AgentEvent, { type: "inventory" }>;

export function applyInventory(
  facts: AgentEventFacts,
  event: Inventory,
): { readonly writes: AgentEventWrites; readonly details: Record<string, unknown> } {
  const { open = [], undelivered } = facts.inventory ?? {};
  const states = new Map(event.jobs.map(({ job, attempt, state }) => [`${job}/${attempt}`, state]));
  // Ends are told before an inventory: one of a job that is open here was told before this server was set
  // back, also where it has offered the job once more since.
  const lost = open.filter(({ id, attempt }) => {
    const state = states.get(`${id}/${attempt}`);
    return state === "ended" || (state === undefined && !undelivered?.has(id));
  });
  let after = writes({});
  for (const job of lost) after = abandonJob(facts, after, job);
  const details = { found: event.jobs, abandoned: after.jobs.map(({ id }) => id) };
  const undone = reconcileDestroyed(facts, after, event.destroyed ?? []);
  const applied = reconcileApplied(facts, undone, event.deployed ?? []);
  return { writes: event.isNew ? doubtDeployed(facts, applied) : applied, details };
}

/** The sandbox was made anew: what the record says is there went with the one before. */
function doubtDeployed(facts: AgentEventFacts, before: AgentEventWrites): AgentEventWrites {
  const install = before.install ?? facts.install;
  const rows = (facts.inventory?.components ?? []).filter(
    ({ deployed, attempted }) => (deployed ?? attempted) !== null,
  );
  if (!install || rows.length === 0) return before;
  const message = "its agent is a new one, in a sandbox where nothing was ever applied";
  const doubted = rows.map(({ name }) => {
    const row = componentNamed(facts, before, name) ?? emptyComponent(install.id, name, "");
    const mayRepeat = (row.attempted ?? row.deployed)?.effects.apply !== "at-most-once";
    return doubtComponent<Deployed, ComponentRow>(row, { at: facts.now, message, mayRepeat });
  });
  const details = { lost: rows.map(({ name }) => name) };
  const entry = { at: facts.now, actor: facts.agent, subject: install.id, details };
  return {
    ...before,
    install: bump(install),
    components: withComponents(before.components, doubted),
    audit: [...before.audit, { ...entry, action: "install.caught_up" }],
  };
}

/** Its record is of before the agent took it down: whatever is wanted of it is to be deployed anew. */
function reconcileDestroyed(
  facts: AgentEventFacts,
  before: AgentEventWrites,
  destroyed: readonly string[],
): AgentEventWrites {
  const install = before.install ?? facts.install;
  const { components = [], open = [] } = facts.inventory ?? {};
  const abandoned = new Set(before.jobs.map(({ id }) => id));
  // Another destroy finds nothing to do, however it ends.
  const isChanging = (name: string) =>
    open.some(
      ({ id, component, operation }) =>
        component === name && operation !== "destroy" && !abandoned.has(id),
    );
  const rows = components.filter(
    ({ name, deployed, attempted }) =>
      destroyed.includes(name) && (deployed ?? attempted) !== null && !isChanging(name),
  );
  if (!install || rows.length === 0) return before;
  const details = { destroyed: rows.map(({ name }) => name) };
  const entry = { at: facts.now, actor: facts.agent, subject: install.id, details };
  return {
    ...before,
    install: bump(install),
    components: withComponents(
      before.components,
      rows.map(({ name, type }) => emptyComponent(install.id, name, type)),
    ),
    audit: [...before.audit, { ...entry, action: "install.caught_up" }],
  };
}

/** Nobody can say how it ended, and what it was about has to know that: it may have run. */
function abandonJob(facts: AgentEventFacts, before: AgentEventWrites, job: JobRow) {
  const because = "the agent knows nothing of this job any more";
  const move = { type: "abandon", at: facts.now, because } as const;
  const state = advanceJob(job.state, move);
  const failure = failureOf(move, job);
  if (!state || !isSettled(state) || !failure) return before;
  const { code, message } = failure;
  const settled: JobRow = {
    ...job,
    state,
    endedAt: facts.now,
    failure: { code, message },
    log: null,
    logComplete: false,
  };
  const install = installOf(facts, before, job);
  const component = componentNamed(facts, before, job.component);
  const { install: changed, ...effect } = consequences(
    { now: facts.now, install, component },
    settled,
    failure,
  );
  return {
    ...before,
    ...effect,
    ...(changed && withInstall(facts, before, changed)),
    jobs: [...before.jobs, settled],
    components: withComponents(before.components, effect.components ?? []),
    audit: [...before.audit, ...(effect.audit ?? [])],
  };
}

/** A setup agent's jobs are each about another install. */
function installOf(
  { install, inventory }: AgentEventFacts,
  before: AgentEventWrites,
  job: JobRow,
): InstallRow | undefined {
  const own = before.install ?? install;
  if (own) return own;
  const changed = before.otherInstalls?.find(({ id }) => id === job.install);
  return changed ?? (job.install === null ? undefined : inventory?.installs?.get(job.install));
}

function withInstall(
  { install }: AgentEventFacts,
  { otherInstalls = [] }: AgentEventWrites,
  changed: InstallRow,
): Partial<AgentEventWrites> {
  if (install) return { install: changed };
  return { otherInstalls: [...otherInstalls.filter(({ id }) => id !== changed.id), changed] };
}

function reconcileApplied(
  facts: AgentEventFacts,
  before: AgentEventWrites,
  applied: readonly AppliedFact[],
): AgentEventWrites {
  const install = before.install ?? facts.install;
  const { inventory } = facts;
  if (!install || !inventory || applied.length === 0) return before;
  const { components, releases, channel } = inventory;
  const { stale, channelTo, unknown } = catchUp({
    applied,
    recorded: new Map(components.map((row) => [row.name, recordedReleases(row, inventory)])),
    releases: new Map(
      [...releases].map(([id, { createdAt, state }]) => [
        id,
        { createdAt, isReady: state === "ready" },
      ]),
    ),
    ...(install.pinnedRelease === null ? { channel: channelFact(channel, releases) } : {}),
  });
  if (stale.length === 0) return before;

  const moved = channelTo === undefined ? undefined : releases.get(channelTo);
  const to = moved && channelAt(install, moved, facts.now);
  const after: InstallRow = {
    ...install,
    unknownRelease: unknown
      ? { release: unknown.release, component: unknown.component, at: facts.now }
      : install.unknownRelease,
  };
  const rows = stale.map((fact) => staleComponent(facts, before, install.id, fact));
  const details = { stale, ...(unknown ? { unknown } : {}), ...(to ? { channel: to } : {}) };
  const entry = { at: facts.now, actor: facts.agent, subject: install.id, details };
  return {
    ...before,
    install: bump(after),
    components: withComponents(before.components, rows),
    ...(to ? { channel: to } : {}),
    audit: [...before.audit, { ...entry, action: "install.caught_up" }],
  };
}

/**
 * An apply that is open or was abandoned just now explains what the agent applied as well as a row does; a plan of the
 * same release does not: it leaves nothing, and nobody would take down what came after it.
 */
function recordedReleases(row: ComponentRow, { open }: InventoryFacts): string[] {
  const jobs = open.filter(
    ({ component, operation }) => component === row.name && operation === "apply",
  );
  const traces = [row.deployed, row.attempted].flatMap((trace) => trace?.release ?? []);
  return [...traces, ...jobs.flatMap(({ release }) => release ?? [])];
}

function channelFact(channel: ChannelRow | undefined, releases: InventoryFacts["releases"]) {
  const release = channel?.release ?? null;
  const createdAt = (release === null ? undefined : releases.get(release))?.createdAt ?? null;
  return { release, createdAt };
}

function channelAt({ app, channel }: InstallRow, release: ReleaseRow, now: Instant): ChannelRow {
  const { id, appName, createdAt: askedAt } = release;
  return { app, appName, name: channel, release: id, movedAt: now, askedAt };
}

/** Its record is older than what is there. */
function staleComponent(
  facts: AgentEventFacts,
  before: AgentEventWrites,
  install: InstallRow["id"],
  { component, type, release, effect }: AppliedFact,
): ComponentRow {
  const row = componentNamed(facts, before, component) ?? emptyComponent(install, component, type);
  const message = `the agent applied it from release ${release}, of which this server has no record`;
  return doubtComponent<Deployed, ComponentRow>(row, {
    at: facts.now,
    message,
    mayRepeat: effect !== "at-most-once",
    trace: facts.inventory?.traces?.get(component),
  });
}

function componentNamed(
  { inventory }: AgentEventFacts,
  { components }: AgentEventWrites,
  name: string | null,
): ComponentRow | undefined {
  const known = [...components, ...(inventory?.components ?? [])];
  return known.find((row) => row.name === name);
}

function withComponents(before: readonly ComponentRow[], changed: readonly ComponentRow[]) {
  const names = new Set(changed.map(({ name }) => name));
  return [...before.filter(({ name }) => !names.has(name)), ...changed];
}
