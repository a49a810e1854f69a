// Carries out the link machine's commits, each in one transaction that is refused when a later
// connection of the same agent has taken over.

import type { AgentEvent, AppliedComponent } from "@exclave/api";
import { type AuditEntry, advanceJob, Failure, type Instant, unreachable } from "@exclave/core";
import { type Repeats, rememberFirsts } from "../access/repeats.ts";
import { audit, type ServerContext } from "../context.ts";
import { traceFromRelease } from "../install/deployed-trace.ts";
import { endUnheard } from "../job/cancel-job.ts";
import type { AgentRow, InstallRow, JobRow } from "../store/rows.ts";
import { componentKey, type Tables } from "../store/store.ts";
import { keepAlarm } from "./agent-alarms.ts";
import { noteBoot } from "./agent-boots.ts";
import type { AgentEventWrites, InventoryFacts } from "./agent-event-writes.ts";
import { applyAgentEvent } from "./apply-agent-event.ts";
import { isWaiting, type LinkWrite, type SequencedCommand } from "./link-state.ts";
import { clockAlarm } from "./session/agent-clock-alarm.ts";
import { writeAll } from "./write-agent-event.ts";

export interface CommittedLinkWrite {
  readonly jobs: readonly JobRow[];
  readonly wake: AgentEventWrites["wake"];
}

type Context = Pick<ServerContext, "store" | "now"> & {
  readonly repeats?: Pick<Repeats, "isFirst"> | undefined;
  readonly peers?: Pick<ServerContext["peers"], "self"> | undefined;
} & Partial<Pick<ServerContext, "readApp">>;
type EventContext = Context & { readonly isHealthOften: () => boolean };
const NOTHING: CommittedLinkWrite = { jobs: [], wake: {} };

/** All of them or none. A session is one by itself: it is what the others are written under. */
export function commitLinkWrites(
  given: Context,
  agentId: string,
  epoch: number,
  writes: readonly LinkWrite[],
  /** Whether this agent told of more changes of health than are a row each. */
  { isHealthOften = () => false }: { readonly isHealthOften?: () => boolean } = {},
): Promise<CommittedLinkWrite> {
  const repeats = given.repeats && rememberFirsts(given.repeats);
  const context = { ...given, repeats };
  return context.store.transaction(async (tx) => {
    repeats?.begin();
    const [first] = writes;
    const before = await fencedAgent(tx, agentId, first?.kind === "session" ? epoch - 1 : epoch);
    if (first?.kind === "session") return commitSession(tx, context, before, epoch, first);
    let agent = before;
    const committed: CommittedLinkWrite[] = [];
    for (const write of writes) {
      const { after, ...done } = await commitOne(tx, { ...context, isHealthOften }, agent, write);
      agent = after;
      committed.push(done);
    }
    await tx.agents.put(agent);
    return together(committed);
  });
}

async function commitOne(
  tx: Tables,
  context: EventContext,
  agent: AgentRow,
  write: LinkWrite,
): Promise<CommittedLinkWrite & { readonly after: AgentRow }> {
  switch (write.kind) {
    case "session":
      throw new Failure("bug", "a session is committed by itself");
    case "offer": {
      const offered = await commitOffer(tx, context, agent, write);
      return { ...offered, after: { ...agent, downHead: write.downHead } };
    }
    case "acked":
      await tx.outbox.trim(agent.audience, write.seq);
      return { ...NOTHING, after: { ...agent, downAcked: Math.max(agent.downAcked, write.seq) } };
    case "event": {
      const told = await commitAgentEvent(tx, agent, write.event, context);
      const said = ofAgent(agent, write.event, context.now());
      return { ...told, after: { ...agent, upAcked: write.seq, ...said } };
    }
    default:
      return unreachable(write);
  }
}

function together(committed: readonly CommittedLinkWrite[]): CommittedLinkWrite {
  const wakes = committed.map(({ wake }) => wake);
  const installs = wakes.flatMap(({ install, otherInstalls = [] }) => [
    ...(install === undefined ? [] : [install]),
    ...otherInstalls,
  ]);
  return {
    jobs: committed.flatMap(({ jobs }) => jobs),
    wake: {
      otherInstalls: [...new Set(installs)],
      releases: wakes.some(({ releases }) => releases),
      allInstalls: wakes.some(({ allInstalls }) => allInstalls),
    },
  };
}

/** What an event says of the agent itself. */
function ofAgent({ alarms }: AgentRow, event: AgentEvent, now: Instant): Partial<AgentRow> {
  if (event.type === "inventory") return { isInventoryWanted: false };
  if (event.type === "trust_changed") return { trustVersion: event.version };
  return event.type === "alarm" ? { alarms: keepAlarm(alarms, event, now) } : {};
}

async function fencedAgent(tx: Tables, id: string, epoch: number): Promise<AgentRow> {
  const agent = await tx.agents.get(id);
  if (agent?.sessionEpoch !== epoch) {
    throw new Failure("conflict", "a later connection of this agent has taken over");
  }
  // Also for what was on its way when that happened.
  if (agent.revokedAt !== null) {
    throw new Failure("unauthenticated", "this agent was revoked; it has to join anew");
  }
  return agent;
}

async function commitSession(
  tx: Tables,
  context: Context,
  agent: AgentRow,
  epoch: number,
  write: Extract<LinkWrite, { kind: "session" }>,
): Promise<CommittedLinkWrite> {
  const { journalId, upAcked, downHead, downAcked, hello } = write;
  const { version, platform, runtime } = hello;
  const { boots, because: copied } = noteBoot(agent.boots, hello.bootId);
  const alarm =
    copied === undefined
      ? clockAlarm(hello.clockMs, context.now())
      : { code: "cloned_key", because: copied };
  await tx.agents.put({
    ...agent,
    boots: [...boots],
    ...(alarm && { alarms: keepAlarm(agent.alarms, alarm, context.now()) }),
    sessionEpoch: epoch,
    heldBy: context.peers?.self() ?? null,
    journalId,
    upAcked,
    downHead,
    downAcked,
    version,
    platform,
    runtime,
    seenAt: context.now(),
    everConnected: true,
    isInventoryWanted: write.isInventoryWanted,
    trustVersion: hello.trustVersion ?? 0,
    authorities: hello.authorities,
    checkpointSize: Math.max(0, ...(hello.checkpointSizes ?? [])),
    ...(write.reset === undefined ? {} : { reset: { at: context.now(), because: write.reset } }),
  });
  if (hello.issueNo !== undefined) await raiseIssueNo(tx, context, agent, hello.issueNo);
  if (write.reset === undefined) {
    await tx.outbox.trim(agent.audience, downAcked);
  } else {
    // By way of numbers nobody has: a new number may still be another row's old one.
    for (const { row } of write.renumbered) await tx.outbox.assign(row, -row);
    for (const { row, seq } of write.renumbered) await tx.outbox.assign(row, seq);
    await offerAnew(tx, write.renumbered, context.now());
    await audit(tx, context, {
      actor: agent.id,
      action: "agent.journal_reset",
      subject: agent.audience,
      details: { because: write.reset, journalId, before: agent.journalId },
    });
  }
  if (alarm) {
    const entry = { actor: "server", action: "agent.alarm", subject: agent.audience };
    const noted = { ...entry, details: { ...alarm, agent: agent.id } };
    if (alarm.code === "cloned_key" || (context.repeats?.isFirst(noted) ?? true)) {
      await audit(tx, context, noted);
    }
  }
  const withdrawn = await commitWithdrawn(tx, context, write.withdrawn ?? []);
  const { bootId, trustVersion } = hello;
  const details = { epoch, version, platform, runtime, bootId, trustVersion };
  const connected = { actor: agent.id, action: "agent.connected", subject: agent.audience };
  // One that comes back again and again is on record once a minute, with a number.
  if (context.repeats?.isFirst({ ...connected, details }) ?? true) {
    await audit(tx, context, { ...connected, details });
  }
  return withdrawn;
}

/** To a journal that has nothing of them: an inventory of before they came says nothing about them. */
async function offerAnew(
  tx: Tables,
  renumbered: readonly SequencedCommand[],
  since: Instant,
): Promise<void> {
  for (const { body } of renumbered) {
    const job = body.type === "job_offer" ? await tx.jobs.get(body.job) : undefined;
    if (job?.state.status !== "offered") continue;
    await tx.jobs.put({ ...job, state: { ...job.state, since } });
  }
}

/** Offers that were cancelled before their agent had them: it never will, so they end here. */
async function commitWithdrawn(
  tx: Tables,
  context: Context,
  withdrawn: readonly SequencedCommand[],
): Promise<CommittedLinkWrite> {
  const jobs: JobRow[] = [];
  for (const { row, body } of withdrawn) {
    if (body.type !== "job_cancel" || !isWaiting(body)) continue;
    await tx.outbox.replace(row, body);
    const job = await tx.jobs.get(body.job);
    const end = { type: "end", at: context.now(), outcome: { kind: "cancelled" } } as const;
    const state = job && advanceJob(job.state, end);
    if (!job || !state || job.attempt !== body.attempt) continue;
    const because = "it was cancelled before its agent had it";
    jobs.push(await endUnheard(tx, context, { ...job, state }, because));
    await audit(tx, context, {
      actor: "server",
      action: "job.withdrawn",
      subject: job.id,
      details: { attempt: job.attempt, because },
    });
  }
  const otherInstalls = jobs.flatMap(({ install }) => install ?? []);
  const wake = { otherInstalls, releases: jobs.length > 0 };
  return { jobs, wake };
}

/** A server restored from a backup has forgotten numbers it gave; the agent has not. */
async function raiseIssueNo(
  tx: Tables,
  context: Context,
  { id, audience }: AgentRow,
  issueNo: number,
): Promise<void> {
  const before = await tx.raiseIssueNo(audience, issueNo);
  if (before >= issueNo) return;
  await audit(tx, context, {
    actor: id,
    action: "agent.issue_numbers_caught_up",
    subject: audience,
    details: { from: before, to: issueNo },
  });
}

async function commitOffer(
  tx: Tables,
  context: Context,
  agent: AgentRow,
  { commands }: Extract<LinkWrite, { kind: "offer" }>,
): Promise<CommittedLinkWrite> {
  const jobs: JobRow[] = [];
  for (const { row, seq, body } of commands) {
    await tx.outbox.assign(row, seq);
    if (body.type !== "job_offer") continue;
    const job = await tx.jobs.get(body.job);
    const state = job && advanceJob(job.state, { type: "offer", at: context.now() });
    if (!job || !state) continue;
    jobs.push({ ...job, state });
    await tx.jobs.put({ ...job, state });
    await audit(tx, context, {
      actor: "server",
      action: "job.offered",
      subject: job.id,
      details: { agent: agent.id, attempt: job.attempt, manifest: job.manifestDigest },
    });
  }
  return { ...NOTHING, jobs };
}

async function commitAgentEvent(
  tx: Tables,
  agent: AgentRow,
  event: AgentEvent,
  context: EventContext,
): Promise<CommittedLinkWrite> {
  const now = context.now();
  const named = "job" in event ? await tx.jobs.get(event.job) : undefined;
  const job = named?.audience === agent.audience ? named : undefined;
  const installId = job?.install ?? (agent.kind === "install" ? agent.audience : undefined);
  const install = installId === undefined ? undefined : await tx.installs.get(installId);
  const componentName = event.type === "health" ? event.component : (job?.component ?? undefined);
  const component =
    install && componentName !== undefined
      ? await tx.components.get(componentKey(install.id, componentName))
      : undefined;
  const facts = { event, agent: agent.id, audience: agent.audience, now, job, install, component };
  const writes = applyAgentEvent(
    event.type === "inventory"
      ? {
          ...facts,
          inventory: await inventoryFacts(tx, context, agent, install, event.deployed ?? []),
        }
      : facts,
  );
  await writeAll(tx, {
    ...writes,
    audit: writes.audit.filter((entry) => isOwnRow(entry, context)),
  });
  return { jobs: writes.jobs, wake: writes.wake };
}

/** An agent may raise as many alarms as it likes: the first of a kind in a minute is a row of its own. */
function isOwnRow(entry: AuditEntry, { repeats, isHealthOften }: EventContext): boolean {
  const isRemark = REMARKS.has(entry.action);
  const isFlapping = entry.action === "component.health" && isHealthOften();
  return isRemark || isFlapping ? (repeats?.isFirst(entry) ?? true) : true;
}

const REMARKS: ReadonlySet<string> = new Set([
  "agent.alarm",
  "agent.stray_event",
  "agent.inventory",
]);

/**
 * An inventory that was lost and comes again is older than what the agent took on since. An offer it
 * has acknowledged is in its journal, and what became of it is told by a later event; unless that very
 * journal was lost.
 */
function isYetToBeTold({ state }: JobRow, reset: AgentRow["reset"]): boolean {
  return state.status === "offered" && !(reset && state.since < reset.at);
}

async function installsOf(
  tx: Tables,
  jobs: readonly JobRow[],
): Promise<ReadonlyMap<string, InstallRow>> {
  const ids = new Set(jobs.flatMap(({ install }) => install ?? []));
  const rows = await Promise.all([...ids].map((id) => tx.installs.get(id)));
  return new Map(rows.flatMap((row) => (row ? [[row.id, row] as const] : [])));
}

async function inventoryFacts(
  tx: Tables,
  { readApp }: Context,
  { audience, reset }: AgentRow,
  install: InstallRow | undefined,
  deployed: readonly AppliedComponent[],
): Promise<InventoryFacts> {
  const open = await tx.jobs.open(audience);
  const sent = await tx.outbox.sent(audience);
  const undelivered = new Set<string>([
    ...sent.filter(({ body }) => body.type === "job_offer").map(({ job }) => job),
    ...open.filter((job) => isYetToBeTold(job, reset)).map(({ id }) => id),
  ]);
  const components = install ? await tx.components.ofInstall(install.id) : [];
  const channel = install && (await tx.channels.of(install.app, install.channel));
  const ids = new Set([...deployed.map(({ release }) => release), channel?.release ?? ""]);
  const rows = await Promise.all([...ids].map((id) => tx.releases.get(id)));
  const releases = new Map(
    rows.flatMap((row) => (row && row.app === install?.app ? [[row.id, row] as const] : [])),
  );
  const traces = deployed.flatMap(({ component, release }) => {
    const row = releases.get(release);
    const trace =
      install && row && readApp && traceFromRelease(install, row, readApp(row), component);
    return trace ? [[component, trace] as const] : [];
  });
  return {
    open: open.filter(({ state }) => state.status !== "queued"),
    ...(install ? {} : { installs: await installsOf(tx, open) }),
    undelivered,
    components,
    releases,
    traces: new Map(traces),
    channel,
  };
}
