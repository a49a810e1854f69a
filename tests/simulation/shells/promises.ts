// What must hold when a world has come to rest.

import { createHash } from "node:crypto";
import { isSettled, jobName, verifyChain } from "@exclave/core";
import {
  decideInstall,
  gatherInstall,
  type InstallRow,
  type JobRow,
} from "@exclave/server/simulation";
import type { AgentSide } from "./agent-side.ts";
import type { Parts } from "./simulate.ts";
import { RELEASES } from "./vendor.ts";
import { must } from "./world.ts";

/** With all the time it takes to reach an agent that is away. */
const HONOURED_MS_MAX = 5 * 60_000;

export type Rest =
  | { readonly kind: "at-rest" }
  | { readonly kind: "busy"; readonly because: string }
  /** Nothing goes on by itself: a hold says what somebody has to do. */
  | { readonly kind: "held"; readonly because: string; readonly installs: readonly string[] };

export async function restOf({ server, agents }: Parts): Promise<Rest> {
  const { context } = server;
  if (!context) return busy("the server is down");
  const held: { name: string; because: string }[] = [];
  for (const install of await server.read.installs.all()) {
    const facts = await gatherInstall(context, install);
    const open = facts.open[0];
    if (open) return busy(`${open.operation} ${open.id} is ${open.state.status}`);
    const decision = decideInstall(facts, context.now());
    if (decision.steps.length > 0) return busy("there are steps to take");
    if (!["ready", "gone", "wait"].includes(decision.sandbox.kind)) return busy("a sandbox");
    const away = decision.holds.find(({ endsWhen }) => /connects/.test(endsWhen));
    if (away) return busy(away.because);
    const timed = decision.holds.find(({ until }) => until !== undefined);
    if (timed) return busy(timed.because);
    if (decision.sandbox.kind === "gone" && install.sandboxState !== "destroyed") {
      if (install.mode !== "destroyed") return busy("it is gone");
    }
    const [hold] = decision.holds;
    if (hold) held.push({ name: install.name, because: `${hold.because} until ${hold.endsWhen}` });
  }
  for (const side of agents.values()) {
    const because = isBusy(side, server.disk.data.nouns.get("agents")?.values() ?? []);
    if (because !== undefined) return busy(because);
  }
  const [first] = held;
  if (!first) return { kind: "at-rest" };
  return { kind: "held", because: first.because, installs: held.map(({ name }) => name) };
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
  for (const { body } of rows) checkJob(parts, body as JobRow);
  const verdict = verifyChain(server.disk.data.audit);
  must(world, verdict.kind === "ok", "the record is whole");
}

function checkInstall({ world, agents }: Parts, install: InstallRow): void {
  const side = agents.get(install.id);
  const { name, mode } = install;
  if (mode === "destroyed") {
    must(world, side === undefined || side.home.isGone, "a destroyed install is gone", name);
    const isEmpty = side === undefined || side.home.deployed.size === 0;
    return must(world, isEmpty, "nothing of a destroyed install is left", name);
  }
  const wanted = RELEASES.find(({ row }) => row.id === install.releaseFloor?.release);
  for (const { name: component, artifact } of wanted?.row.components ?? []) {
    const isThere = side?.home.deployed.get(component) === artifact?.digest;
    must(world, isThere, "what is wanted is deployed", `${component} of ${name}`);
  }
}

function checkJob({ world, server, agents, operator }: Parts, job: JobRow): void {
  const { id, attempt, state, audience, log } = job;
  must(world, isSettled(state), "every job ends", id);
  const name = jobName(id, attempt);
  const started = agents.get(audience)?.home.runtime.history.get(name);
  const { status } = state;
  if (status === "succeeded") {
    must(world, started?.ok === true, "the row's outcome is the real one", `${name} ${status}`);
  }
  if (status === "failed" || status === "cancelled") {
    must(world, started?.ok !== true, "the row's outcome is the real one", `${name} ${status}`);
  }
  const ranMs = (started?.endedAt ?? 0) - (started?.startedAt ?? 0);
  const isLong = operator.cancelled.has(id) && ranMs > HONOURED_MS_MAX;
  must(world, !isLong, "a cancel is honoured", name);
  // What was not sent when the sandbox went is gone with it.
  if (!log || log.bytes === 0 || agents.get(audience)?.home.isGone) return;
  must(world, job.logComplete, "a log comes whole", name);
  const kept = server.files.get(name)?.kept ?? new Uint8Array();
  const sha256 = createHash("sha256").update(kept).digest("hex");
  must(world, sha256 === log.sha256, "a log has the digest it was closed with", name);
}
