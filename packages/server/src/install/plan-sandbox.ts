// Decides what an install's sandbox needs next: to be set up before everything, to be taken down
// after everything. In between it is the planner's turn.

import { decideRetry, type Hold, type Instant } from "@exclave/core";
import type { ComponentRow, JobRow } from "../store/rows.ts";
import type { InstallFacts } from "./gather-install.ts";
import { isAskedToStop } from "./plan-stops.ts";

export type SandboxPlan =
  /** The sandbox stands and is wanted: look at the components. */
  | { readonly kind: "ready" }
  | { readonly kind: "setup" | "teardown"; readonly because: string }
  /** Nothing was ever set up, or all of it is gone. */
  | { readonly kind: "gone" }
  | { readonly kind: "wait"; readonly hold: Hold };

export function planSandbox(facts: InstallFacts, now: Instant): SandboxPlan {
  const { install, open } = facts;
  const { sandboxState, mode } = install;
  if (sandboxState === "destroyed") return { kind: "gone" };

  const active = open.find(({ about }) => about.kind === "setup" || about.kind === "teardown");
  if (active) {
    const because = `${active.about.kind} job ${active.id} is ${active.state.status}`;
    return wait(because, "the job ends");
  }
  if (mode === "present") {
    if (sandboxState === "present") return { kind: "ready" };
    const because = "the install has no sandbox yet";
    return hindrance(facts, "setup", now) ?? { kind: "setup", because };
  }
  if (sandboxState === "absent") return { kind: "gone" };
  // What is deployed, or may be, goes first, by the install's own agent.
  if (facts.components.some(isThere)) return { kind: "ready" };
  const [job] = open;
  if (job) return waitForJob(job, facts);
  const because = "every component is gone, and the install is to be destroyed";
  return hindrance(facts, "teardown", now) ?? { kind: "teardown", because };
}

/** One that was only planned has a row, and nothing of it is anywhere. */
function isThere({ deployed, attempted }: ComponentRow): boolean {
  return deployed !== null || attempted !== null;
}

/** Nothing is taken away below a job that may be at work. */
function waitForJob({ id, operation, state }: JobRow, { isAgentOnline }: InstallFacts) {
  const asked = isAskedToStop(state) ? ", and was asked to stop" : "";
  const back = isAgentOnline ? "" : "the agent connects again and ";
  return wait(`${operation} job ${id} is ${state.status}${asked}`, `${back}the job ends`);
}

function hindrance(
  { install, isSetupOnline, sandboxImage, runnerImage }: InstallFacts,
  what: "setup" | "teardown",
  now: Instant,
): SandboxPlan | undefined {
  if (!runnerImage || !sandboxImage) {
    const missing = runnerImage ? `sandbox ${install.sandbox}` : "runner";
    return wait(
      `there is no image of the ${missing} in the registry yet`,
      "the build agent has published it",
    );
  }
  const { sandboxFailure } = install;
  if (sandboxFailure) {
    const failed = `the ${what} failed (${sandboxFailure.code}): ${sandboxFailure.message}`;
    const retry = decideRetry(sandboxFailure, now);
    if (retry.kind === "later") {
      const endsWhen = `it is tried again at ${new Date(retry.until).toISOString()}`;
      return { kind: "wait", hold: { because: failed, endsWhen, until: retry.until } };
    }
    if (retry.kind === "not-by-itself") {
      const verb = what === "setup" ? "deploy" : "destroy";
      const ask = `\`exclave install ${verb} ${install.name}\` asks for a retry`;
      return wait(`${failed}; ${retry.because}`, ask);
    }
  }
  // A join secret lives for minutes: a setup is not left waiting for an agent that is away.
  if (!isSetupOnline) return wait("the setup agent is not connected", "the setup agent connects");
  return undefined;
}

function wait(because: string, endsWhen: string): SandboxPlan {
  return { kind: "wait", hold: { because, endsWhen } };
}
