// Makes a job: its manifest, its row, the command that carries it to the one agent that may
// run it, and the line on record, all in the caller's transaction.

import {
  type AppId,
  type ArtifactRef,
  type Audience,
  canonicalBytes,
  digestOf,
  digestOfBytes,
  Failure,
  Instant,
  type JobFailure,
  type Limits,
  limitsFor,
  MANIFEST_BYTES_MAX,
  Manifest,
  type ManifestStep,
  manifestBytes,
  type Network,
  refuseDeadline,
  toBase64,
} from "@exclave/core";
import { audit, type ServerContext } from "../context.ts";
import { newJobId } from "../identifiers.ts";
import type { InstallRow, JobPurpose, JobRow } from "../store/rows.ts";
import type { Tables } from "../store/store.ts";
import { continuedTrace, type Trace } from "../traces/trace-context.ts";

const VALID_MS = 24 * 60 * 60_000;
const MINUTE_MS = 60_000;

export interface JobOrder {
  readonly audience: Audience;
  /** The install it is about. */
  readonly install?: Pick<InstallRow, "id" | "name" | "app">;
  /** For jobs that are about no install. */
  readonly app?: AppId;
  readonly release?: string;
  /** Directs an older release than the install had. */
  readonly rollback?: boolean;
  readonly step: ManifestStep;
  readonly purpose: JobPurpose;
  readonly inputs?: Record<string, unknown>;
  readonly generatedSecrets?: Manifest["generatedSecrets"];
  readonly statusEveryMs?: number;
  /** What its component asks for; the rest is the operation's default. */
  readonly limits?: Limits | undefined;
  readonly network?: Network | undefined;
  readonly deadlineMs?: number;
  /** What it needs from the vendor's registry; nothing for jobs that run from the install's own. */
  readonly reads?: readonly ArtifactRef[];
  readonly writes?: readonly string[];
  readonly because: string;
  readonly requestedBy: string;
  /** Of the request it comes of. */
  readonly trace?: Trace | null;
}

export async function issueJob(
  tx: Tables,
  context: Pick<ServerContext, "now">,
  order: JobOrder,
): Promise<JobRow> {
  const now = context.now();
  const tooLong = refuseDeadline(order.deadlineMs ?? 0);
  if (tooLong !== undefined) {
    throw new Failure("too_large", `${order.step.operation} cannot be issued: ${tooLong}`);
  }
  const manifest = await manifestFor(tx, order, now);
  const bytes = manifestBytes(manifest);
  if (bytes.length > MANIFEST_BYTES_MAX) throw tooLarge(order, bytes.length);
  const job = jobFor(order, manifest, digestOfBytes(bytes), now);

  await tx.jobs.put(job);
  await tx.outbox.add(order.audience, {
    type: "job_offer",
    job: job.id,
    attempt: job.attempt,
    payload: toBase64(bytes),
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
      install: order.install?.id,
      installName: order.install?.name,
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

/**
 * For jobs that no caller waits for. An order that no agent would take is refused for good: it goes on
 * record and is a failure to remember, where an error would be retried without end.
 */
export async function tryIssueJob(
  tx: Tables,
  context: Pick<ServerContext, "now">,
  order: JobOrder,
): Promise<{ readonly job: JobRow } | { readonly failure: JobFailure }> {
  try {
    return { job: await issueJob(tx, context, order) };
  } catch (reason) {
    if (!(reason instanceof Failure) || reason.code !== "too_large") throw reason;
    const { code, message } = reason;
    const { operation, component } = order.step;
    await audit(tx, context, {
      actor: "server",
      action: "job.not_created",
      subject: order.install?.id ?? order.release ?? order.audience,
      details: {
        name: order.install?.name,
        release: order.release,
        operation,
        component,
        code,
        because: message,
      },
    });
    return { failure: { code, message, mayRepeat: true } };
  }
}

/** Nothing is issued that no agent would take: whoever asked is told, and which part is the large one. */
function tooLarge({ step, inputs }: JobOrder, bytes: number): Failure {
  const { operation, component, config, parameters, materials } = step;
  const parts = { arguments: parameters, configuration: config, inputs, materials };
  const sizes = Object.entries(parts).map(
    ([name, part]) => [name, canonicalBytes(part ?? {}).length] as const,
  );
  const [largest] = sizes.toSorted(([, a], [, b]) => b - a);
  const what = component === undefined ? operation : `${operation} of ${component}`;
  const which = largest ? `its ${largest[0]} are ${largest[1]} of them` : "";
  return new Failure(
    "too_large",
    `${what} would be a manifest of ${bytes} bytes, ${which}; the limit is ${MANIFEST_BYTES_MAX}`,
  );
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
    app: appOf(order),
    // An install's own agent knows whose it is; the setup agent works for many.
    install: order.audience === "setup" ? order.install : undefined,
    joinFor: order.purpose.kind === "setup" ? order.install?.id : undefined,
    release: order.release,
    ...(order.rollback ? { rollback: true } : {}),
    steps: [order.step],
    inputs,
    inputsDigest: digestOf(inputs),
    generatedSecrets: order.generatedSecrets ?? [],
    notBefore: now,
    notAfter: Instant.parse(now + VALID_MS),
    deadlineMs: order.deadlineMs ?? deadlineMs(order.step.operation),
    statusEveryMs: order.statusEveryMs,
    limits: limitsFor(order.step.operation, order.limits),
    network: order.network,
    requestedBy: order.requestedBy,
    because: order.because,
  });
}

function appOf({ app, install }: JobOrder): AppId | undefined {
  return install?.app ?? app;
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
    install: order.install?.id ?? null,
    installName: order.install?.name ?? null,
    app: appOf(order) ?? null,
    component: order.step.component ?? null,
    release: order.release ?? null,
    operation: order.step.operation,
    effect: order.step.effect,
    state: { status: "queued", since: now },
    purpose: order.purpose,
    because: order.because,
    requestedBy: order.requestedBy,
    trace: continuedTrace(order.trace ?? null, now),
    createdAt: now,
    startedAt: null,
    endedAt: null,
    failure: null,
    exitCode: null,
    report: null,
    plan: null,
    log: null,
    logComplete: false,
    manifestDigest,
    joinGivenAt: null,
    reads: [...(order.reads ?? [])],
    writes: [...(order.writes ?? [])],
  };
}
