// By what an agent judges the server's words: its trust document, and how much it takes on at once.

import { type AgentKind } from "@exclave/api";
import {
  Instant,
  isTrustExpired,
  type Judgement,
  judgeCancel,
  judgeEnvelope,
  keysOfRole,
  nextTrust,
  openCheckpoint,
  type SandboxRules,
  type TrustDocument,
} from "@exclave/core";
import { verifySignature } from "@exclave/machine";
import { CLOCK_SKEW_MS } from "./core/agent-limits.ts";
import type { AgentRules } from "./core/agent-state.ts";
import { type Identity } from "./identity/identity.ts";

const JOBS_MAX = 8;

const DEBUG_JOBS_MAX = 4;

const RESUMES_MAX = 3;

export function agentRules(
  kind: AgentKind,
  identity: Identity,
  publishes: readonly string[],
  sandboxRules?: SandboxRules,
): AgentRules {
  const { audience } = identity;
  return {
    kind,
    judge: (envelope, { now: at, trust, lastIssueNo, seenAttempts }) => {
      const now = Instant.parse(at);
      if (isTrustExpired(trust, now)) return refuseExpired(trust);
      return judgeEnvelope({
        envelope,
        ...keysOfRole(trust, "director", now),
        verify: verifySignature,
        audience,
        now,
        clockSkewMs: CLOCK_SKEW_MS,
        lastIssueNo,
        seenAttempts,
        sandboxRules,
      });
    },
    judgeCancel: ({ envelope, job, attempt }, { now: at, trust }) => {
      const now = Instant.parse(at);
      return judgeCancel({
        envelope,
        ...keysOfRole(trust, "director", now),
        verify: verifySignature,
        audience,
        job,
        attempt,
        now,
        clockSkewMs: CLOCK_SKEW_MS,
      });
    },
    nextTrust: (current, envelope, now) =>
      nextTrust({ current, envelope, now: Instant.parse(now), verify: verifySignature }),
    openCheckpoint: (envelope, trust, now) =>
      openCheckpoint(envelope, {
        ...keysOfRole(trust, "checkpoint", Instant.parse(now)),
        verify: verifySignature,
      }),
    jobsMax: JOBS_MAX,
    debugJobsMax: DEBUG_JOBS_MAX,
    resumesMax: RESUMES_MAX,
    publishes: kind === "build" ? publishes : [],
  };
}

/** Nobody vouches any more for the keys of an expired document. */
function refuseExpired({ version, expiresAt }: TrustDocument): Judgement {
  const ended = new Date(expiresAt).toISOString();
  const because = `trust document ${version}, by which manifests are judged here, ended at ${ended}`;
  return { kind: "refused", code: "expired", because };
}
