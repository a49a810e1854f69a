// Decides what an install's sandbox needs next: to be set up before everything, to be taken down
// after everything. In between it is the planner's turn.

import type { FailedAttempts } from "../consequence/failed-attempts.ts";
import { type InstallRecord, sandboxKey } from "../consequence/install-end.ts";
import type { Digest, Instant } from "../ids.ts";
import type { Health } from "../job/job-line.ts";
import { isAskedToStop, type JobState } from "../job/job-state.ts";
import {
  atLatest,
  atTime,
  byCommand,
  byItself,
  byNewerRelease,
  byRelease,
  type Hold,
  type HoldEnd,
} from "./hold.ts";
import { seenAgent } from "./install-state.ts";
import { agentHold } from "./plan-install.ts";
import { decideRetry } from "./retry.ts";

/** What is remembered of an install whose sandbox it is. */
export interface SandboxRecord {
  readonly name: string;
  readonly appName: string;
  readonly channel: string;
  readonly mode: "present" | "destroyed";
  /** Its type. */
  readonly sandbox: string;
  readonly sandboxState: InstallRecord["sandboxState"];
  readonly sandboxFailure: FailedAttempts | null;
  /** Why the setup is to run once more, although it was done before. */
  readonly setupWanted: string | null;
  readonly sandboxLook: SandboxLook | null;
  /** When the last setup ended well. */
  readonly setUpAt: Instant | null;
}

/** The last look at a sandbox whose agent was gone, and the setups that followed in a row. */
export interface SandboxLook {
  readonly at: Instant;
  readonly setups: number;
}

export interface SandboxFacts {
  readonly install: SandboxRecord;
  readonly components: readonly { readonly deployed: unknown; readonly attempted: unknown }[];
  /** Jobs of the install that are not over: its own agent's, and the setup agent's. */
  readonly open: readonly OpenJob[];
  readonly agent?: {
    readonly seenAt: Instant;
    readonly everConnected: boolean;
    /** The server was set back, and the agent has not told yet what it did meanwhile. */
    readonly isInventoryWanted?: boolean;
  };
  readonly isAgentOnline: boolean;
  readonly isSetupOnline: boolean;
  /** When the server that decides was started: before, another backup may have been its memory. */
  readonly serverStartedAt?: Instant;
  /** The release the sandbox is set up from, or taken down by. */
  readonly sandboxRelease?: {
    readonly id: string;
    readonly version: string;
    readonly appName: string;
    /** Of its index; null before it is assembled. */
    readonly digest: Digest | null;
    readonly sandboxes: readonly { readonly type: string }[];
  };
}

interface OpenJob {
  readonly id: string;
  readonly operation: string;
  readonly purpose: { readonly kind: string };
  readonly state: JobState;
}

export type SandboxPlan =
  /** The sandbox stands and is wanted: look at the components. */
  | { readonly kind: "ready" }
  | { readonly kind: "setup" | "teardown" | "look"; readonly because: string }
  /** Nothing was ever set up, or all of it is gone. */
  | { readonly kind: "gone" }
  | { readonly kind: "wait"; readonly hold: Hold };

export function planSandbox(facts: SandboxFacts, now: Instant): SandboxPlan {
  const { install, open } = facts;
  const { sandboxState, mode } = install;
  if (sandboxState === "destroyed") return { kind: "gone" };

  const active = open.find(
    ({ purpose }) =>
      purpose.kind === "setup" || purpose.kind === "teardown" || purpose.kind === "sandbox-status",
  );
  if (active) {
    const because = `${active.purpose.kind} job ${active.id} is ${active.state.status}`;
    return wait(because, byItself("the job ends"));
  }
  if (mode === "present") {
    if (sandboxState === "present") return planRepair(facts, now);
    const because = install.setupWanted ?? "the install has no sandbox yet";
    return hindrance(facts, "setup", now) ?? { kind: "setup", because };
  }
  if (sandboxState === "absent") return { kind: "gone" };
  // What is deployed, or may be, goes first, by the install's own agent: one that is gone is brought back.
  const isDeployed = facts.components.some(isThere);
  const isUntold = facts.agent?.isInventoryWanted ?? false;
  // Whoever reads a log or runs a debug command does not hold the end of the install back.
  const job = open.find(({ purpose }) => purpose.kind !== "request");
  if (isDeployed || isUntold || job) {
    const repair = planRepair(facts, now);
    if (repair.kind !== "ready" || isDeployed) return repair;
    return job ? waitForJob(job, facts) : waitForInventory(facts);
  }
  const unheard = waitForWord(facts, now);
  if (unheard) return unheard;
  const because = "every component is gone, and the install is to be destroyed";
  return hindrance(facts, "teardown", now) ?? { kind: "teardown", because };
}

/** How long an agent is gone before its sandbox is asked why, and how long until it is asked again. */
export const LOOK_AFTER_MS = 120_000;
const LOOK_AGAIN_MS = 300_000;
const SETUPS_MAX = 3;

/**
 * A sandbox that stands is set up again when somebody asked for it, or when its agent is gone and the
 * sandbox itself says that something in it is. A network that is away is no reason: then it says it is well.
 */
function planRepair(facts: SandboxFacts, now: Instant): SandboxPlan {
  const { install, agent, isAgentOnline, isSetupOnline } = facts;
  // What is to go needs no better sandbox than the one its agent is in.
  if (install.mode === "destroyed" && isAgentOnline) return { kind: "ready" };
  if (install.setupWanted !== null) {
    return hindrance(facts, "setup", now) ?? { kind: "setup", because: install.setupWanted };
  }
  const dueAt = nextLookAt(facts);
  // A time that lies ahead was written by a clock that was wrong; it tells nothing of how long it is.
  const isAhead = (agent?.seenAt ?? 0) > now || (install.sandboxLook?.at ?? 0) > now;
  const isDue = dueAt !== undefined && (isAhead || now >= dueAt);
  if (!isDue || !isSetupOnline || !facts.sandboxRelease) return { kind: "ready" };
  if (!agent?.everConnected) {
    const since = new Date(install.setUpAt ?? now).toISOString();
    return { kind: "setup", because: `its agent has not connected since the setup at ${since}` };
  }
  return {
    kind: "look",
    because: `its agent is gone since ${new Date(agent.seenAt).toISOString()}`,
  };
}

/** The last look, unless the agent has been there since. */
export function lookSince({ install, agent }: SandboxFacts): SandboxLook | null {
  const { sandboxLook } = install;
  return sandboxLook && sandboxLook.at >= (agent?.seenAt ?? 0) ? sandboxLook : null;
}

/** What a look at a sandbox whose agent is gone makes of the install. */
export function endLook<Row extends Pick<SandboxRecord, "sandboxLook" | "setupWanted">>(
  install: Row,
  { at, seen }: { readonly at: Instant; readonly seen?: SandboxSeen | undefined },
): Omit<Row, "sandboxLook" | "setupWanted"> & Pick<SandboxRecord, "sandboxLook" | "setupWanted"> {
  const isBroken = seen !== undefined && seen.health !== "healthy" && seen.health !== "unknown";
  const setups = (install.sandboxLook?.setups ?? 0) + (isBroken ? 1 : 0);
  const because = `its agent is gone, and the sandbox says: ${seen?.because ?? ""}`;
  return {
    ...install,
    sandboxLook: { at, setups },
    setupWanted: isBroken ? because : install.setupWanted,
  };
}

export interface SandboxSeen {
  readonly health: Health;
  readonly because: string;
}

/** When the next look is due, for whoever waits; nothing where none is. */
export function nextLookAt(facts: SandboxFacts): number | undefined {
  const { install, agent, isAgentOnline } = facts;
  if (install.sandboxState !== "present") return undefined;
  if (isAgentOnline) return undefined;
  if (!agent?.everConnected) return nextSetupAt(install);
  const look = lookSince(facts);
  if (!look) return agent.seenAt + LOOK_AFTER_MS;
  return look.setups < SETUPS_MAX ? look.at + LOOK_AGAIN_MS : undefined;
}

/**
 * An agent that never came may have joined a server that has forgotten it since: a backup was restored. No
 * look at the sandbox would tell, for everything in it runs.
 */
function nextSetupAt({ mode, setUpAt, sandboxLook }: SandboxRecord): number | undefined {
  const { setups = 0 } = sandboxLook ?? {};
  if (mode !== "present" || setUpAt === null || setups >= SETUPS_MAX) return undefined;
  return setUpAt + LOOK_AFTER_MS * 2 ** setups;
}

/** A setup of a sandbox that stands: whether it is one, and how many followed each other. */
export function setupAgain(
  {
    sandboxState,
    setupWanted,
    sandboxLook,
  }: Pick<SandboxRecord, "sandboxState" | "setupWanted" | "sandboxLook">,
  now: Instant,
): { readonly isAgain: boolean; readonly sandboxLook: SandboxLook | null } {
  if (setupWanted !== null) return { isAgain: true, sandboxLook };
  if (sandboxState !== "present") return { isAgain: false, sandboxLook };
  return { isAgain: true, sandboxLook: { at: now, setups: (sandboxLook?.setups ?? 0) + 1 } };
}

/** One that was only planned has a row, and nothing of it is anywhere. */
function isThere({ deployed, attempted }: SandboxFacts["components"][number]): boolean {
  return deployed !== null || attempted !== null;
}

/** Nothing is taken away below a job that may be at work. */
function waitForJob({ id, operation, state }: OpenJob, facts: SandboxFacts): SandboxPlan {
  const asked = isAskedToStop(state) ? ", and was asked to stop" : "";
  const because = `${operation} job ${id} is ${state.status}${asked}`;
  const agent = seenAgent(facts);
  if (agent.status === "online") return wait(because, byItself("the job ends"));
  const away = agentHold(agent, facts.install.name);
  return wait(`${because}, and ${away.because}`, away);
}

/** The server was set back: what it does not know of is there all the same, and its agent knows. */
function waitForInventory(facts: SandboxFacts): SandboxPlan {
  const because = "its agent knows more than this server, and has not told what there is";
  const agent = seenAgent(facts);
  if (agent.status === "online") return wait(because, byItself("the agent's inventory has come"));
  const away = agentHold(agent, facts.install.name);
  return wait(`${because}: ${away.because}`, away);
}

/** How long an agent has to come back to a server that was started anew. */
export const WORD_WITHIN_MS = 120_000;

/**
 * A server that was just started cannot know whether a backup was restored meanwhile. Its agents can: what they
 * deployed since that backup they tell when they come back, and nothing is taken down before they could.
 */
function waitForWord(
  { agent, isAgentOnline, serverStartedAt }: SandboxFacts,
  now: Instant,
): SandboxPlan | undefined {
  if (isAgentOnline || !agent?.everConnected || serverStartedAt === undefined) return undefined;
  if (agent.seenAt >= serverStartedAt || now < serverStartedAt) return undefined;
  const until = (serverStartedAt + WORD_WITHIN_MS) as Instant;
  if (now >= until) return undefined;
  const because = "the server was started anew, and the agent has not come back to it yet";
  return wait(because, atLatest("the agent connects again", until));
}

function hindrance(
  { install, isSetupOnline, sandboxRelease }: SandboxFacts,
  what: "setup" | "teardown",
  now: Instant,
): SandboxPlan | undefined {
  if (!sandboxRelease) return { kind: "wait", hold: noRelease(install) };
  const { id, version, appName: app, sandboxes, digest } = sandboxRelease;
  if (digest === null || !sandboxes.some(({ type }) => type === install.sandbox)) {
    const because = `release ${version} of ${app} was made without the sandbox ${install.sandbox}`;
    const does = "has made another release, once the build agent has published it";
    return wait(because, byRelease({ app, channel: install.channel }, does));
  }
  const { sandboxFailure } = install;
  const key = sandboxKey(id);
  if (sandboxFailure && (sandboxFailure.key ?? key) === key) {
    const failed = `the ${what} failed (${sandboxFailure.code}): ${sandboxFailure.message}`;
    const retry = decideRetry(sandboxFailure, now);
    if (retry.kind === "later") {
      return wait(failed, atTime(retry.until));
    }
    const isLeaving = install.mode === "destroyed";
    if (retry.kind === "not-by-itself" && sandboxFailure.code === "downgrade" && !isLeaving) {
      // A server that was set back has forgotten the release that the install has seen.
      return wait(failed, byNewerRelease({ app, channel: install.channel }));
    }
    if (retry.kind === "not-by-itself") {
      const again = install.setupWanted === null ? "deploy" : "setup";
      const verb = what === "setup" ? again : "destroy";
      const ask = byCommand(`exclave install ${verb} ${install.name}`, "asks for a retry");
      return wait(`${failed}; ${retry.because}`, ask);
    }
  }
  // A join secret lives for minutes: a setup is not left waiting for an agent that is away.
  if (!isSetupOnline) {
    return wait("the setup agent is not connected", byItself("the setup agent connects"));
  }
  return undefined;
}

export function noRelease({
  appName: app,
  channel,
}: Pick<SandboxRecord, "appName" | "channel">): Hold {
  return {
    because: `channel ${channel} of ${app} has no release yet`,
    ...byRelease({ app, channel }, "has made one"),
  };
}

function wait(because: string, end: HoldEnd): SandboxPlan {
  return { kind: "wait", hold: { because, ...end } };
}
