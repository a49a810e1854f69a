// What an install is doing and why it is not done yet, in words: the answer to "why is nothing
// happening?", shared by everything that waits for an install.

import type { ComponentView, HoldView, InstallView, JobView } from "@exclave/api";
import { holdText } from "../output/install-text.ts";
import type { Verdict } from "./wait.ts";

export interface InstallSeen {
  readonly install: InstallView;
  /** Those of the sandbox itself, newest first. */
  readonly jobs: readonly JobView[];
}

/** Healthy: every component is there as wanted and well. */
export function judgeDeploy({ install, jobs }: InstallSeen): Verdict {
  const lines = installLines(install);
  if (install.phase === "destroying" || install.phase === "destroyed") {
    return { kind: "failed", lines, because: `${install.name} is being destroyed` };
  }
  if (isHealthy(install)) return { kind: "done", lines };

  const unset = install.agent.status === "never" ? retryHold(install) : undefined;
  if (unset) return failed(lines, `the setup failed${setupFailure(jobs)}`, unset);
  const stuck = stuckComponent(install);
  if (stuck) {
    const hold = holdFor(install, stuck.name);
    return failed(lines, `${stuck.name} failed: ${hold?.because ?? stuck.healthBecause}`, hold);
  }
  return waiting(lines, install);
}

export function judgeDestroy(seen: InstallSeen): Verdict {
  const { install } = seen;
  const lines = installLines(install);
  if (install.phase === "destroyed") return { kind: "done", lines };
  const stuck = isAtWork(install) ? undefined : retryHold(install);
  return stuck ? failed(lines, destroyFailure(stuck, seen), stuck) : waiting(lines, install);
}

function destroyFailure({ component, because }: HoldView, { install, jobs }: InstallSeen): string {
  if (component !== null) return `${component} could not be destroyed: ${because}`;
  // What is about the whole install is the sync for the components, and after them the sandbox.
  if (install.components.length > 0) return because;
  return `the sandbox could not be destroyed${setupFailure(jobs)}`;
}

function failed(lines: string[], because: string, hold: HoldView | undefined): Verdict {
  return { kind: "failed", lines, because, endsWhen: hold?.endsWhen };
}

function waiting(lines: string[], install: InstallView): Verdict {
  const [hold] = install.holds;
  return { kind: "waiting", lines, missing: missing(install), endsWhen: hold?.endsWhen };
}

/** What an agent that is away said last is no news. */
export function isHealthy({ phase, health, components, agent }: InstallView): boolean {
  return (
    phase === "settled" &&
    agent.status === "online" &&
    health === "healthy" &&
    components.every(({ state, health }) => state === "deployed" && health === "healthy")
  );
}

/** One line about the install, one per component, one per reason to wait. */
export function installLines(install: InstallView): string[] {
  const version = install.version === null ? "no release yet" : `release ${install.version}`;
  return [
    `${install.name}: ${install.phase}, ${version}, agent ${install.agent.status}, ${install.health}`,
    ...install.components.map((component) => `  ${componentText(component)}`),
    ...tellingHolds(install).map(
      (hold) => `  waits: ${hold.component === null ? "" : `${hold.component}: `}${holdText(hold)}`,
    ),
  ];
}

/** A component at work says so in its own line; its hold would only repeat it. */
function tellingHolds({ holds, components }: InstallView) {
  const atWork = components.filter(
    ({ activeJob, state }) => activeJob !== null || state === "syncing",
  );
  return holds.filter(({ component }) => !atWork.some(({ name }) => name === component));
}

export function isActive(state: JobView["state"]): boolean {
  return state === "queued" || state === "offered" || state === "accepted" || state === "running";
}

export function isFailed({ state }: JobView): boolean {
  return state === "failed" || state === "rejected" || state === "unknown";
}

export function failureText({ id, failure, state }: JobView): string {
  return `${failure?.message ?? state} (job ${id})`;
}

function componentText({ name, type, state, health, healthBecause }: ComponentView): string {
  const why = health === "healthy" || healthBecause === "" ? "" : ` (${healthBecause})`;
  return `${name.padEnd(12)} ${type.padEnd(10)} ${state.padEnd(10)} ${health}${why}`;
}

/** What failed, and is not retried before somebody asks for it. */
function retryHold({ holds }: InstallView): HoldView | undefined {
  return holds.find(({ endsWhen }) => endsWhen.includes("asks for a retry"));
}

function setupFailure([last]: readonly JobView[]): string {
  return last ? `: ${failureText(last)}` : "";
}

/** Failed, with nothing at work and nothing planned: waiting longer changes nothing. */
function stuckComponent(install: InstallView): ComponentView | undefined {
  if (install.phase !== "held" || install.agent.status !== "online") return undefined;
  if (isAtWork(install)) return undefined;
  return install.components.find(
    ({ name, state }) => state === "failed" && !endsByItself(holdFor(install, name)?.endsWhen),
  );
}

function isAtWork({ components }: InstallView): boolean {
  return components.some(({ activeJob }) => activeJob !== null);
}

/** A back-off ends by the clock alone. */
function endsByItself(endsWhen: string | undefined): boolean {
  return endsWhen !== undefined && /\b(at|in|after) \d/.test(endsWhen);
}

function holdFor({ holds }: InstallView, component: string) {
  return holds.find((hold) => hold.component === component);
}

function missing({ agent, components, holds, phase }: InstallView): string {
  const [hold] = holds;
  if (hold) return `${hold.component ?? "the install"}: ${hold.because}`;
  if (agent.status !== "online") return "the install's agent to connect";
  const open = components.filter(
    ({ state, health }) => state !== "deployed" || health !== "healthy",
  );
  return open.length > 0
    ? open.map(({ name }) => name).join(", ")
    : `the install to leave ${phase}`;
}
