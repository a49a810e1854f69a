// Manifests, envelopes and agents for tests: everything a test is not about.

import { generateKeyPairSync, type KeyObject, sign } from "node:crypto";
import {
  CANCEL_PAYLOAD_TYPE,
  type Cancel,
  cancelBytes,
  digestOf,
  type Envelope,
  InstallId,
  Instant,
  JobId,
  jobName,
  judgeCancel,
  judgeEnvelope,
  keysOfRole,
  MANIFEST_PAYLOAD_TYPE,
  Manifest,
  type ManifestStep,
  manifestBytes,
  nextTrust,
  openCheckpoint,
  signEnvelope,
  type TrustDocument,
} from "@exclave/core";
import { verifySignature } from "@exclave/machine";
import type { AgentRules, CancelCommand } from "../core/agent-state.ts";
import type { JobRecord } from "../journal/journal.ts";
import type { Log } from "../log.ts";
import type { TrustFile } from "../trust/trust-file.ts";

export const NOW = 1_800_000_000_000;
export const ACME = InstallId.parse("iacmeaaaaaaaaaaaa");
export const GLOBEX = InstallId.parse("iglobexaaaaaaaaaa");
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
    audience: ACME,
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
  /** A signed wish that this attempt stop. */
  cancel(job: string, changes?: Partial<Record<keyof Cancel, unknown>>): CancelCommand;
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
    cancel(job, changes = {}) {
      const [issuedAt, notAfter] = [NOW, NOW + 60_000];
      const about = {
        version: 1,
        audience: ACME,
        job,
        attempt: 1,
        requestedBy: "ada",
        because: "",
      };
      const cancel = { ...about, graceMs: 0, issuedAt, notAfter, ...changes } as Cancel;
      const envelope = signEnvelope(CANCEL_PAYLOAD_TYPE, cancelBytes(cancel), {
        keyid,
        sign: (bytes) => sign(null, bytes, privateKey),
      });
      return { type: "job_cancel", job: JobId.parse(job), attempt: 1, envelope };
    },
  };
}

export function spkiOf(key: KeyObject): string {
  return key.export({ format: "der", type: "spki" }).toString("base64");
}

/** A trust document in which this director, and nobody else, has the say. */
export function trustIn({ keyid, spki }: Pick<Director, "keyid" | "spki">): TrustDocument {
  const role = { keyids: [keyid], threshold: 1 };
  return {
    version: 1,
    expiresAt: Instant.parse(NOW + 365 * 24 * 60 * 60_000),
    keys: { [keyid]: { spki, scheme: "ed25519" } },
    roles: { root: role, release: role, director: role, checkpoint: role },
    origins: ["http://vendor.test", "https://vendor.test"],
  };
}

export function memoryTrust(director: Director): TrustFile {
  let document = trustIn(director);
  return {
    current: () => document,
    keep(_, next) {
      document = next;
    },
    role: (role) => keysOfRole(document, role, Instant.parse(NOW)),
  };
}

/** Rules of an install agent that goes by its trust document. */
export function testRules(changes: Partial<AgentRules> = {}): AgentRules {
  return {
    kind: "install",
    judge: (envelope, { now, trust, lastIssueNo, seenAttempts }) =>
      judgeEnvelope({
        envelope,
        ...keysOfRole(trust, "director", Instant.parse(now)),
        verify: verifySignature,
        audience: ACME,
        now: Instant.parse(now),
        clockSkewMs: 60_000,
        lastIssueNo,
        seenAttempts,
      }),
    judgeCancel: ({ envelope, job, attempt }, { now, trust }) =>
      judgeCancel({
        envelope,
        ...keysOfRole(trust, "director", Instant.parse(now)),
        verify: verifySignature,
        audience: ACME,
        job,
        attempt,
        now: Instant.parse(now),
        clockSkewMs: 60_000,
      }),
    nextTrust: (current, envelope, now) =>
      nextTrust({ current, envelope, now: Instant.parse(now), verify: verifySignature }),
    openCheckpoint: (envelope, trust, now) =>
      openCheckpoint(envelope, {
        ...keysOfRole(trust, "checkpoint", Instant.parse(now)),
        verify: verifySignature,
      }),
    jobsMax: 8,
    debugJobsMax: 4,
    resumesMax: 3,
    publishes: [],
    ...changes,
  };
}
