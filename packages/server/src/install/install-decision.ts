// What is to happen next in one install, and why the rest is not: the sandbox's turn, then the
// planner's. The loop acts on it and the view shows it, so both always say the same.

import { type Hold, type Instant, planInstall, type Step } from "@exclave/core";
import { type InstallFacts, seenOf, wantedOf } from "./gather-install.ts";
import { missingSecrets } from "./inputs.ts";
import { planSandbox, type SandboxPlan } from "./plan-sandbox.ts";

export interface InstallDecision {
  readonly sandbox: SandboxPlan;
  readonly steps: readonly Step[];
  readonly holds: readonly Hold[];
}

export function decideInstall(facts: InstallFacts, now: Instant): InstallDecision {
  const sandbox = planSandbox(facts, now);
  if (sandbox.kind === "wait") {
    return { sandbox, steps: [], holds: [sandbox.hold, ...channelHold(facts)] };
  }
  if (sandbox.kind !== "ready") return { sandbox, steps: [], holds: [] };

  const wanted = wantedOf(facts);
  if (!wanted) return { sandbox, steps: [], holds: channelHold(facts) };
  const secrets = secretHolds(facts);
  if (secrets.length > 0) return { sandbox, steps: [], holds: secrets };
  const { steps, holds } = planInstall({ wanted, seen: seenOf(facts), now });
  return {
    sandbox,
    steps,
    holds: [...holds, ...(facts.install.mode === "present" ? channelHold(facts) : [])],
  };
}

/** A release that came later may want more than the install was made with. */
function secretHolds({ install, app }: InstallFacts): Hold[] {
  if (!app || install.mode === "destroyed") return [];
  const endsWhen = "a release is wanted that needs no secret from outside";
  return missingSecrets(app).map((because) => ({ because, endsWhen }));
}

function channelHold({ install, release }: InstallFacts): Hold[] {
  if (release || install.mode === "destroyed") return [];
  const { app, channel } = install;
  return [
    {
      because: `channel ${channel} of ${app} has no release yet`,
      endsWhen: `\`exclave release --channel ${channel}\` has made one`,
    },
  ];
}
