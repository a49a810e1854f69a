// Access to the vendor's registry, for one job and ten minutes. Only the agent that holds the job
// gets it, it opens what the job's manifest names and nothing else, and each one is on record.

import type { Grant } from "@exclave/api";
import { isSettled, JobId } from "@exclave/core";
import { type Access, mintToken } from "@exclave/oci";
import { audit, type ServerContext } from "./context.ts";
import { newSecret } from "./identifiers.ts";
import type { AgentRow, JobRow } from "./store/rows.ts";

export const GRANT_TTL_MS = 10 * 60_000;
export const REGISTRY_ISSUER = "exclave";
export const REGISTRY_SERVICE = "exclave-registry";
export const SOURCES_SERVICE = "exclave-sources";

/** The images every job runs lie below this, and only those. */
const PUBLISHED = /^exclave\/[a-z0-9][a-z0-9._/-]*$/;

/** Asked for by the build agent at its start: not a job, but the images every job runs. */
export const PUBLISH_JOB = JobId.parse("jaaaaaaaaaaaaaaaa");

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
  { job, attempt, repositories = [] }: WantedGrant,
): Promise<GrantAnswer> {
  const row = job === PUBLISH_JOB ? undefined : await context.store.read.jobs.get(job);
  const scope =
    job === PUBLISH_JOB ? publishScope(agent, repositories) : jobScope(agent, row, attempt);
  if ("refused" in scope) {
    await onRecord(context, agent, "grant.refused", job, { because: scope.refused });
    return scope;
  }

  const jti = newSecret();
  const { access, digests, source } = scope;
  await onRecord(context, agent, "grant.given", job, { jti, access, digests, source });
  const now = context.now();
  const minted = {
    privateKey: context.keys.registry.privateKey,
    issuer: REGISTRY_ISSUER,
    subject: agent.id,
    ttlMs: GRANT_TTL_MS,
    now,
    jti,
  };
  const url = context.publicUrl();
  const token = await mintToken({ ...minted, audience: REGISTRY_SERVICE, access, digests });
  const expiresAt = now + GRANT_TTL_MS;
  if (source === undefined) return { grant: { registryUrl: url, token, expiresAt } };
  const sourceToken = await mintToken({
    ...minted,
    audience: SOURCES_SERVICE,
    access: [sourceAccess(source)],
  });
  const sourceUrl = `${url}/v1/agent/sources/${source}`;
  return { grant: { registryUrl: url, token, expiresAt, sourceUrl, sourceToken } };
}

export function sourceAccess(digest: string): Access {
  return { type: "repository", name: `sources/${digest}`, actions: ["pull"] };
}

interface Scope {
  readonly access: Access[];
  readonly digests?: JobRow["reads"][number]["digest"][];
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
    ...(written.size === 0 ? { digests: [...new Set(job.reads.map(({ digest }) => digest))] } : {}),
    ...(job.about.kind === "build" ? { source: job.about.source } : {}),
  };
}

function repositoryAccess(name: string, actions: Access["actions"]): Access {
  return { type: "repository", name, actions };
}

function onRecord(
  context: ServerContext,
  agent: AgentRow,
  action: string,
  subject: string,
  details: Record<string, unknown>,
): Promise<unknown> {
  return context.store.transaction((tx) =>
    audit(tx, context, { actor: agent.id, action, subject, details }),
  );
}
