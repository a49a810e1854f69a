// What must hold when a world has come to rest.

import { createHash } from "node:crypto";
import { isSettled, jobName, verifyChain } from "@exclave/core";
import {
  type AgentRow,
  createMemoryStore,
  decideInstall,
  gatherInstall,
  type InstallRow,
  type JobRow,
} from "@exclave/server/simulation";
import type { AgentSide } from "./agent-side.ts";
import { startedIn } from "./home.ts";
import type { Parts } from "./simulate.ts";
import { checkLog, checkTold } from "./told-promises.ts";
import { releaseOfId } from "./vendor.ts";
import { must } from "./world.ts";

/** With all the time it takes to reach an agent that is away. */
const HONOURED_MS_MAX = 5 * 60_000;

export type Rest =
  | { readonly kind: "at-rest" }
  | { readonly kind: "busy"; readonly because: string }
  /** Nothing goes on by itself: a hold says what somebody has to do. */
  | { readonly kind: "held"; readonly because: string; readonly installs: readonly HeldInstall[] };

export interface HeldInstall {
  readonly id: string;
  readonly name: string;
  readonly because: string;
  readonly endsWhen: string;
}

export async function restOf({ server, agents }: Parts): Promise<Rest> {
  const { context } = server;
  if (!context) return busy("the server is down");
  const held: HeldInstall[] = [];
  for (const install of await server.read.installs.all()) {
    const facts = await gatherInstall(context, install);
    const open = facts.open[0];
    if (open) return busy(`${open.operation} ${open.id} is ${open.state.status}`);
    const decision = decideInstall(facts, context.now());
    if (decision.steps.length > 0) return busy("there are steps to take");
    if (!["ready", "gone", "wait"].includes(decision.sandbox.kind)) return busy("a sandbox");
    const away = decision.holds.find(({ endsWhen }) =>
      /connects|inventory has come/.test(endsWhen),
    );
    if (away) return busy(away.because);
    const timed = decision.holds.find(({ until }) => until !== undefined);
    if (timed) return busy(timed.because);
    if (decision.sandbox.kind === "gone" && install.sandboxState !== "destroyed") {
      if (install.mode !== "destroyed") return busy("it is gone");
    }
    const [hold] = decision.holds;
    if (hold) held.push({ id: install.id, name: install.name, ...hold });
  }
  const isHeld = (audience: string) => held.some(({ id }) => id === audience);
  const known = new Set<string>((await server.read.installs.all()).map(({ id }) => id));
  for (const side of agents.values()) {
    // What a hold waits for, its agent may wait for too; one whose install was forgotten has no server.
    const isForgotten = side.home.kind === "install" && !known.has(side.home.audience);
    if (isHeld(side.home.audience) || isForgotten) continue;
    const because = isBusy(side, server.disk.data.nouns.get("agents")?.values() ?? []);
    if (because !== undefined) return busy(because);
  }
  const [first] = held;
  if (!first) return { kind: "at-rest" };
  return { kind: "held", because: `${first.because} until ${first.endsWhen}`, installs: held };
}

function busy(because: string): Rest {
  return { kind: "busy", because };
}

function isBusy({ home, isUp }: AgentSide, rows: Iterable<{ body: unknown }>): string | undefined {
  if (home.isGone) return undefined;
  if (!isUp) return `the agent of ${home.name} is down`;
  const { events, jobs, journalId } = home.journal.load();
  if (jobs.length > 0) return `${home.name} has ${jobs[0]?.name}`;
  if (events.length > 0) return `${home.name} has something to say`;
  const row = [...rows].find(
    ({ body }) => (body as { audience: string }).audience === home.audience,
  );
  const known = row?.body as { journalId: string } | undefined;
  return known?.journalId === journalId ? undefined : `${home.name} is not known`;
}

export async function checkAtRest(parts: Parts): Promise<void> {
  const { world, server, agents } = parts;
  if (world.violations.length > 0) return;
  for (const install of await server.read.installs.all()) checkInstall(parts, install);
  for (const { home } of agents.values()) {
    const left = home.runtime.left().filter((name) => !name.startsWith("j-s-"));
    if (!home.isGone)
      must(world, left.length === 0, "the runtime is empty at rest", left.join(" "));
  }
  const rows = [...(server.disk.data.nouns.get("jobs")?.values() ?? [])];
  for (const { body } of rows) {
    checkJob(parts, body as JobRow);
    checkLog(parts, body as JobRow);
  }
  checkTold(parts);
  await checkRows(parts);
  const verdict = verifyChain(server.disk.data.audit);
  must(world, verdict.kind === "ok", "the record is whole");
}

const TABLES = [
  "agents",
  "joins",
  "apps",
  "installs",
  "components",
  "jobs",
  "releases",
  "channels",
] as const;

/** Rows that were looked at: the vendor's are the same in every world, and nobody changes a row. */
const readable = new WeakSet<object>();

/** A database reads a row by its schema; the store in memory takes it as it is. */
async function checkRows({ world, server }: Parts): Promise<void> {
  await createMemoryStore().transaction(async (tx) => {
    for (const table of TABLES) {
      for (const { body } of server.disk.data.nouns.get(table)?.values() ?? []) {
        if (readable.has(body as object)) continue;
        const isReadable = await tx[table].put(body as never).then(
          () => true,
          () => false,
        );
        if (isReadable) readable.add(body as object);
        else must(world, false, "every row can be read back", `${table} ${JSON.stringify(body)}`);
      }
    }
  });
}

function checkInstall({ world, agents, server }: Parts, install: InstallRow): void {
  const side = agents.get(install.id);
  const { name, mode } = install;
  if (mode === "destroyed") {
    must(world, side === undefined || side.home.isGone, "a destroyed install is gone", name);
    // What is from a release that a restored backup has no record of, nobody can take down.
    const agentRows = [...(server.disk.data.nouns.get("agents")?.values() ?? [])];
    const isKnown = agentRows.some(({ body }) => (body as AgentRow).audience === install.id);
    const isForgotten =
      (server.forgets.has(install.id) && !isKnown) || install.unknownRelease !== null;
    const isEmpty = side === undefined || isForgotten || side.home.deployed.size === 0;
    return must(world, isEmpty, "nothing of a destroyed install is left", name);
  }
  const wanted = releaseOfId(install.releaseFloor?.release);
  for (const { name: component, artifact } of wanted?.row.components ?? []) {
    const isThere = side?.home.deployed.get(component) === artifact?.digest;
    must(world, isThere, "what is wanted is deployed", `${component} of ${name}`);
  }
}

function checkJob({ world, server, agents, operator }: Parts, job: JobRow): void {
  const { id, attempt, state, audience, log } = job;
  must(world, isSettled(state), "every job ends", id);
  const name = jobName(id, attempt);
  const started = startedIn(agents.get(audience)?.home, name);
  const { status } = state;
  if (status === "succeeded") {
    must(world, started?.ok === true, "the row's outcome is the real one", `${name} ${status}`);
  }
  if (status === "cancelled" && !server.disk.isSetBack) {
    const isAsked = server.disk.data.audit.some(
      ({ action, subject }) => action === "job.cancel_requested" && subject === id,
    );
    must(world, isAsked, "a job is cancelled only when somebody asked", name);
  }
  if (status === "failed" || status === "cancelled") {
    must(world, started?.ok !== true, "the row's outcome is the real one", `${name} ${status}`);
  }
  const ranMs = (started?.endedAt ?? 0) - (started?.startedAt ?? 0);
  const isLong = operator.cancelled.has(id) && ranMs > HONOURED_MS_MAX;
  must(world, !isLong, "a cancel is honoured", name);
  // What was not sent when the sandbox went is gone with it.
  const home = agents.get(audience)?.home;
  if (!log || log.bytes === 0 || !home || home.isGone) return;
  const kept = server.files.get(name)?.kept ?? new Uint8Array();
  // With a journal it is lost which logs were still to be sent.
  if (home.journals > 1 && kept.length < log.bytes) return;
  must(world, job.logComplete || home.journals > 1, "a log comes whole", name);
  const sha256 = createHash("sha256").update(kept).digest("hex");
  must(world, sha256 === log.sha256, "a log has the digest it was closed with", name);
}
