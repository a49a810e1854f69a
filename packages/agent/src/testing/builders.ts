// Manifests, envelopes and agents for tests: everything a test is not about.

import { generateKeyPairSync, type KeyObject, sign } from "node:crypto";
import {
  digestOf,
  type Envelope,
  Instant,
  JobId,
  jobName,
  judgeEnvelope,
  MANIFEST_PAYLOAD_TYPE,
  Manifest,
  type ManifestStep,
  manifestBytes,
  signEnvelope,
} from "@exclave/core";
import type { AgentRules } from "../core/agent-state.ts";
import { verifyEd25519 } from "../identity.ts";
import type { JobRecord } from "../journal/journal.ts";
import type { Log } from "../log.ts";

export const NOW = 1_800_000_000_000;
export const DIGEST = digestOf("some image");

export const silentLog: Log = { debug() {}, info() {}, warn() {}, error() {} };

/** A job id that reads: letters are kept, the rest is filled up. */
export function jobId(text = "job"): JobId {
  return JobId.parse(
    `j${text
      .replaceAll(/[^a-z]/g, "")
      .padEnd(16, "a")
      .slice(0, 16)}`,
  );
}

export type ManifestChanges = Partial<Omit<Manifest, "steps">> & {
  readonly step?: Partial<ManifestStep>;
};

let issued = 0;

export function job(name = "job", { step, ...changes }: ManifestChanges = {}): Manifest {
  const operation = changes.operation ?? step?.operation ?? "apply";
  const inputs = changes.inputs ?? {};
  return Manifest.parse({
    version: 1,
    id: jobId(name),
    attempt: 1,
    audience: "acme",
    issueNo: ++issued,
    operation,
    steps: [
      {
        operation,
        plugin: { repository: "exclave/plugins/command", digest: DIGEST },
        component: operation === "sync" ? undefined : "api",
        type: "command",
        config: {},
        effect: "fenced",
        ...step,
      },
    ],
    inputs,
    inputsDigest: digestOf(inputs),
    notBefore: NOW - 1_000,
    notAfter: NOW + 3_600_000,
    deadlineMs: 60_000,
    requestedBy: "a test",
    because: "it is tested",
    ...changes,
  });
}

export function recordOf(manifest: Manifest, changes: Partial<JobRecord> = {}): JobRecord {
  const name = jobName(manifest.id, manifest.attempt);
  return { name, manifest, status: "accepted", launches: 0, ...changes };
}

export interface Director {
  readonly keyid: string;
  readonly spki: string;
  seal(manifest: Manifest): Envelope;
}

export function createDirector(keyid = "director"): Director {
  const { publicKey, privateKey } = generateKeyPairSync("ed25519");
  const spki = spkiOf(publicKey);
  return {
    keyid,
    spki,
    seal: (manifest) =>
      signEnvelope(MANIFEST_PAYLOAD_TYPE, manifestBytes(manifest), {
        keyid,
        sign: (bytes) => sign(null, bytes, privateKey),
      }),
  };
}

export function spkiOf(key: KeyObject): string {
  return key.export({ format: "der", type: "spki" }).toString("base64");
}

/** Rules of an install agent that trusts this director and nobody else. */
export function rulesFor(director: Director, changes: Partial<AgentRules> = {}): AgentRules {
  return {
    kind: "install",
    judge: (envelope, { now, lastIssueNo, seenAttempts }) =>
      judgeEnvelope({
        envelope,
        keys: [{ keyid: director.keyid, spki: director.spki }],
        verify: verifyEd25519,
        audience: "acme",
        now: Instant.parse(now),
        clockSkewMs: 60_000,
        lastIssueNo,
        seenAttempts,
      }),
    jobsMax: 8,
    resumesMax: 3,
    publishes: [],
    ...changes,
  };
}
