// Makes a job: its signed manifest, its row, the command that carries it to the one agent that may
// run it, and the line on record, all in the caller's transaction.

import {
  type ArtifactRef,
  digestOf,
  digestOfBytes,
  Instant,
  MANIFEST_PAYLOAD_TYPE,
  Manifest,
  type ManifestStep,
  manifestBytes,
  signEnvelope,
} from "@exclave/core";
import { audit, type ServerContext } from "./context.ts";
import { newJobId } from "./identifiers.ts";
import type { JobAbout, JobRow } from "./store/rows.ts";
import type { Tables } from "./store/store.ts";

const VALID_MS = 24 * 60 * 60_000;
const MINUTE_MS = 60_000;

export interface JobOrder {
  /** An install's name, `build` or `setup`. */
  readonly audience: string;
  readonly install?: string;
  readonly app?: string;
  readonly release?: string;
  readonly step: ManifestStep;
  readonly about: JobAbout;
  readonly inputs?: Record<string, unknown>;
  readonly generatedSecrets?: Manifest["generatedSecrets"];
  readonly statusEveryMs?: number;
  readonly deadlineMs?: number;
  /** What it needs from the vendor's registry; nothing for jobs that run from the install's own. */
  readonly reads?: readonly ArtifactRef[];
  readonly writes?: readonly string[];
  readonly because: string;
  readonly requestedBy: string;
}

export async function issueJob(
  tx: Tables,
  context: Pick<ServerContext, "keys" | "now">,
  order: JobOrder,
): Promise<JobRow> {
  const now = context.now();
  const manifest = await manifestFor(tx, order, now);
  const bytes = manifestBytes(manifest);
  const envelope = signEnvelope(MANIFEST_PAYLOAD_TYPE, bytes, context.keys.director);
  const job = jobFor(order, manifest, digestOfBytes(bytes), now);

  await tx.jobs.put(job);
  await tx.outbox.add(order.audience, {
    type: "job_offer",
    job: job.id,
    attempt: job.attempt,
    envelope,
  });
  const { plugin, artifact, component, type } = order.step;
  await audit(tx, context, {
    actor: order.requestedBy,
    action: "job.created",
    subject: job.id,
    // Not the whole manifest: its parameters may hold what is not to be read here.
    details: {
      manifest: job.manifestDigest,
      issueNo: manifest.issueNo,
      audience: order.audience,
      operation: job.operation,
      install: order.install,
      release: order.release,
      component,
      type,
      plugin,
      artifact,
      because: order.because,
    },
  });
  return job;
}

async function manifestFor(tx: Tables, order: JobOrder, now: Instant): Promise<Manifest> {
  const inputs = order.inputs ?? {};
  return Manifest.parse({
    version: 1,
    id: newJobId(),
    attempt: 1,
    audience: order.audience,
    issueNo: await tx.nextIssueNo(order.audience),
    operation: order.step.operation,
    app: order.app,
    release: order.release,
    steps: [order.step],
    inputs,
    inputsDigest: digestOf(inputs),
    generatedSecrets: order.generatedSecrets ?? [],
    notBefore: now,
    notAfter: Instant.parse(now + VALID_MS),
    deadlineMs: order.deadlineMs ?? deadlineMs(order.step.operation),
    statusEveryMs: order.statusEveryMs,
    requestedBy: order.requestedBy,
    because: order.because,
  });
}

function deadlineMs(operation: ManifestStep["operation"]): number {
  switch (operation) {
    case "sync":
    case "assemble":
      return 30 * MINUTE_MS;
    case "status":
      return 2 * MINUTE_MS;
    case "logs":
    case "exec":
      return 5 * MINUTE_MS;
    default:
      return 60 * MINUTE_MS;
  }
}

function jobFor(
  order: JobOrder,
  { id, attempt }: Manifest,
  manifestDigest: JobRow["manifestDigest"],
  now: Instant,
): JobRow {
  return {
    id,
    attempt,
    audience: order.audience,
    install: order.install ?? null,
    app: order.app ?? null,
    component: order.step.component ?? null,
    release: order.release ?? null,
    operation: order.step.operation,
    state: { status: "queued", since: now },
    about: order.about,
    because: order.because,
    requestedBy: order.requestedBy,
    createdAt: now,
    startedAt: null,
    endedAt: null,
    failure: null,
    exitCode: null,
    plan: null,
    log: null,
    logComplete: false,
    manifestDigest,
    reads: [...(order.reads ?? [])],
    writes: [...(order.writes ?? [])],
  };
}
