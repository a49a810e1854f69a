// Access to the vendor's registry, for one job and as long as it runs. Only the agent that holds the
// job gets it: a credential that the token service takes for tokens of minutes, each for what the
// job's manifest names and nothing else, until the job has ended. Every one is on record.

import { type Grant, PUBLISH_JOB } from "@exclave/api";
import { type Digest, Failure, isSettled } from "@exclave/core";
import { type Access, createTokenVerifier, mintToken } from "@exclave/oci";
import { noteOnRecord } from "../access/note-refusal.ts";
import { audit, type ServerContext } from "../context.ts";
import { newSecret } from "../identifiers.ts";
import type { AgentRow, JobRow } from "../store/rows.ts";

export const TOKEN_TTL_MS = 5 * 60_000;
const PUBLISH_TTL_MS = 10 * 60_000;
/** Longer than any job of ours takes by default. It ends with its job, whatever is left of this. */
const CREDENTIAL_TTL_MS = 2 * 60 * 60_000;
export const REGISTRY_ISSUER = "exclave";
export const REGISTRY_SERVICE = "exclave-registry";
export const SOURCES_SERVICE = "exclave-sources";
const TOKEN_SERVICE = "exclave-tokens";

/** The images every job runs lie below this, and only those. */
const PUBLISHED = /^exclave\/[a-z0-9][a-z0-9._/-]*$/;

export type GrantAnswer = { readonly grant: Grant } | { readonly refused: string };

export interface WantedGrant {
  readonly job: string;
  readonly attempt: number;
  /** Asked for with `PUBLISH_JOB` alone. */
  readonly repositories?: readonly string[] | undefined;
}

export async function grantFor(
  context: ServerContext,
  agent: AgentRow,
  wanted: WantedGrant,
): Promise<GrantAnswer> {
  const { job, attempt, repositories = [] } = wanted;
  const scope =
    job === PUBLISH_JOB.job
      ? publishScope(agent, repositories)
      : jobScope(agent, await context.store.read.jobs.get(job), attempt);
  if ("refused" in scope) {
    const details = { because: scope.refused };
    await noteOnRecord(context, {
      actor: agent.id,
      action: "grant.refused",
      subject: job,
      details,
    });
    return scope;
  }

  // Says which job it is for, so that it can be looked up whenever it is used.
  const jti = `${job}.${attempt}.${newSecret()}`;
  const { access, reads, source } = scope;
  const digests = reads && digestsOf(reads);
  await onRecord(context, agent.id, "grant.given", job, { jti, access, digests, source });
  const minted = { ...signedBy(context), subject: agent.id, jti };
  const registryUrl = context.publicUrl();
  if (job === PUBLISH_JOB.job) {
    const ttlMs = PUBLISH_TTL_MS;
    const token = await mintToken({ ...minted, audience: REGISTRY_SERVICE, access, ttlMs });
    return { grant: { registryUrl, token, expiresAt: minted.now + ttlMs } };
  }
  const ttlMs = CREDENTIAL_TTL_MS;
  const credential = await mintToken({ ...minted, audience: TOKEN_SERVICE, access: [], ttlMs });
  const grant = { registryUrl, credential, expiresAt: minted.now + ttlMs };
  if (source === undefined) return { grant };
  const sourceToken = await mintToken({
    ...minted,
    audience: SOURCES_SERVICE,
    access: [sourceAccess(source)],
    ttlMs,
  });
  const sourceUrl = `${registryUrl}/v1/agent/sources/${source}`;
  return { grant: { ...grant, sourceUrl, sourceToken } };
}

/** Whose a credential is and for which attempt, if it is one of ours. */
export interface CredentialHolder {
  readonly agent: string;
  readonly job: string;
  readonly attempt: number;
}

export async function holderOf(
  { keys, now }: Pick<ServerContext, "keys" | "now">,
  credential: string,
): Promise<CredentialHolder> {
  const trust = { publicKeys: [keys.registry.publicKey], issuer: REGISTRY_ISSUER };
  const verifier = createTokenVerifier({ ...trust, audience: TOKEN_SERVICE });
  const { sub: agent, jti } = await verifier.verify(credential, now());
  const [job = "", attempt] = jti.split(".");
  return { agent, job, attempt: Number(attempt) };
}

/** For a job that runs: a token for what is asked for, as far as its manifest names it. */
export async function tokenForJob(
  context: ServerContext,
  { agent: sub, job, attempt }: CredentialHolder,
  asked: readonly Access[],
): Promise<string> {
  const agent = await context.store.read.agents.get(sub);
  const row = await context.store.read.jobs.get(job);
  const scope: ReturnType<typeof jobScope> =
    !agent || agent.revokedAt !== null
      ? { refused: "the agent is not trusted any more" }
      : jobScope(agent, row, attempt);
  if ("refused" in scope) {
    const details = { because: scope.refused };
    await noteOnRecord(context, { actor: sub, action: "grant.refused", subject: job, details });
    throw new Failure("unauthenticated", scope.refused);
  }
  const { access, reads } = narrow(scope, asked);
  const digests = reads && digestsOf(reads);
  const given = `${job}.${attempt}.${newSecret()}`;
  await onRecord(context, sub, "grant.given", job, { jti: given, access, digests });
  return mintToken({
    ...signedBy(context),
    subject: sub,
    jti: given,
    audience: REGISTRY_SERVICE,
    access,
    digests,
    ttlMs: TOKEN_TTL_MS,
  });
}

function signedBy({ keys, now }: ServerContext) {
  return { privateKey: keys.registry.privateKey, issuer: REGISTRY_ISSUER, now: now() };
}

/** What is both asked for and allowed; nothing at all is an answer too, as token services have it. */
export function narrow(
  { access, reads }: Scope,
  asked: readonly Access[],
): Pick<Scope, "access" | "reads"> {
  const both = access
    .map(({ name, actions, ...rest }) => {
      const wanted = asked.filter((one) => one.name === name).flatMap((one) => one.actions);
      return { ...rest, name, actions: actions.filter((action) => wanted.includes(action)) };
    })
    .filter(({ actions }) => actions.length > 0);
  const names = new Set(both.map(({ name }) => name));
  return {
    access: both,
    ...(reads && { reads: reads.filter(({ repository }) => names.has(repository)) }),
  };
}

function digestsOf(reads: NonNullable<Scope["reads"]>): Digest[] {
  return [...new Set(reads.map(({ digest }) => digest))];
}

export function sourceAccess(digest: string): Access {
  return { type: "repository", name: `sources/${digest}`, actions: ["pull"] };
}

export interface Scope {
  readonly access: Access[];
  /** Of which repositories only these are opened. */
  readonly reads?: JobRow["reads"];
  readonly source?: string;
}

function publishScope(
  agent: AgentRow,
  repositories: readonly string[],
): Scope | { readonly refused: string } {
  if (agent.kind !== "build") return { refused: "only the build agent publishes images" };
  if (repositories.length === 0) return { refused: "it was not said which images are published" };
  const foreign = repositories.find((name) => !PUBLISHED.test(name));
  if (foreign !== undefined) return { refused: `images are not published to ${foreign}` };
  return { access: repositories.map((name) => repositoryAccess(name, ["pull", "push"])) };
}

export function jobScope(
  agent: Pick<AgentRow, "audience">,
  job: JobRow | undefined,
  attempt: number,
): Scope | { readonly refused: string } {
  if (!job || job.audience !== agent.audience || job.attempt !== attempt) {
    return { refused: "that is not a job of this agent" };
  }
  if (job.reads.length === 0 && job.writes.length === 0) {
    return { refused: "the job needs nothing from the vendor's registry" };
  }
  if (isSettled(job.state)) return { refused: `the job has ended (${job.state.status})` };

  const written = new Set(job.writes);
  const read = new Set(job.reads.map(({ repository }) => repository));
  const access = [
    ...[...written].map((name) => repositoryAccess(name, ["pull", "push"])),
    ...[...read]
      .filter((name) => !written.has(name))
      .map((name) => repositoryAccess(name, ["pull"])),
  ];
  return {
    access,
    // Whoever only reads, reads exactly what the manifest names.
    ...(written.size === 0 ? { reads: job.reads } : {}),
    ...(job.purpose.kind === "build" ? { source: job.purpose.source } : {}),
  };
}

function repositoryAccess(name: string, actions: Access["actions"]): Access {
  return { type: "repository", name, actions };
}

function onRecord(
  context: ServerContext,
  actor: string,
  action: string,
  subject: string,
  details: Record<string, unknown>,
): Promise<unknown> {
  return context.store.transaction((tx) => audit(tx, context, { actor, action, subject, details }));
}
