// What is to happen next in one install, and why the rest is not: the sandbox's turn, then the
// planner's. The loop acts on it and the view shows it, so both always say the same.

import {
  byCommand,
  byItself,
  byRelease,
  directionTo,
  type Hold,
  type Instant,
  noRelease,
  planInstall,
  planSandbox,
  type SandboxPlan,
  type Step,
} from "@exclave/core";
import { type InstallFacts, seenOf, wantedOf } from "./gather-install.ts";
import { missingSecrets } from "./inputs.ts";

export interface InstallDecision {
  readonly sandbox: SandboxPlan;
  readonly steps: readonly Step[];
  readonly holds: readonly Hold[];
  /** When waiting alone changes something that no hold speaks of. */
  readonly wakeAt?: Instant;
}

export function decideInstall(facts: InstallFacts, now: Instant): InstallDecision {
  const untold = inventoryHold(facts);
  if (untold) return { sandbox: { kind: "wait", hold: untold }, steps: [], holds: [untold] };
  const sandbox = planSandbox(facts, now);
  if (sandbox.kind === "wait") {
    const others = channelHold(facts).filter(({ because }) => because !== sandbox.hold.because);
    return { sandbox, steps: [], holds: [sandbox.hold, ...others] };
  }
  if (sandbox.kind !== "ready") return { sandbox, steps: [], holds: [] };

  const wanted = wantedOf(facts);
  if (!wanted) return { sandbox, steps: [], holds: channelHold(facts) };
  const forgotten = forgottenHold(facts);
  if (forgotten) return { sandbox, steps: [], holds: [forgotten] };
  const backwards = rollbackHolds(facts);
  if (backwards.length > 0) return { sandbox, steps: [], holds: backwards };
  const secrets = secretHolds(facts);
  if (secrets.length > 0) return { sandbox, steps: [], holds: secrets };
  const { steps, holds, wakeAt } = planInstall({ wanted, seen: seenOf(facts, now), now });
  return {
    sandbox,
    steps,
    ...(wakeAt === undefined ? {} : { wakeAt }),
    holds: [...holds, ...(facts.install.mode === "present" ? channelHold(facts) : [])],
  };
}

/** Whatever is decided before the agent has told what it did meanwhile may be done already, or undo it. */
function inventoryHold({ agent, isAgentOnline }: InstallFacts): Hold | undefined {
  if (!agent?.isInventoryWanted || !isAgentOnline) return undefined;
  return {
    because: "its agent knows more than this server, and is asked what there is",
    ...byItself("the agent's inventory has come"),
  };
}

/**
 * The agent runs what this server has forgotten. Anything older would set the install back, so it
 * waits for a release made after that, or for somebody's word on which one it shall be.
 */
function forgottenHold({ install, release }: InstallFacts): Hold | undefined {
  const { unknownRelease, mode, appName: app, channel } = install;
  if (!unknownRelease || mode === "destroyed") return undefined;
  if (release && release.createdAt > unknownRelease.at) return undefined;
  const { component, release: id } = unknownRelease;
  return {
    because: `its agent runs ${component} from release ${id}, of which this server has no record: it was restored from an older backup`,
    ...byRelease({ app, channel }, "has made it again"),
  };
}

/** A release that came later may want more than the install was made with. */
function secretHolds({ install, app }: InstallFacts): Hold[] {
  if (!app || install.mode === "destroyed") return [];
  const { appName, channel } = install;
  const does = "has made a release that needs no secret from outside";
  const end = byRelease({ app: appName, channel }, does);
  return missingSecrets(app).map((because) => ({ because, ...end }));
}

function channelHold({ install, release }: InstallFacts): Hold[] {
  if (release || install.mode === "destroyed") return [];
  return [noRelease(install)];
}

/** The install's agent would refuse it: nothing is directed that it cannot accept. */
function rollbackHolds({ install, release }: InstallFacts): Hold[] {
  if (!release || install.mode === "destroyed") return [];
  const { number, version: versionName } = release;
  const { name, releaseFloor } = install;
  const direction = directionTo({ number, versionName }, releaseFloor ?? undefined);
  if (!releaseFloor || direction.kind !== "refused") return [];
  const forwards = `exclave install deploy ${name} --release ${releaseFloor.release}`;
  return [{ because: direction.because, ...byCommand(forwards, "goes back to the newest it had") }];
}
