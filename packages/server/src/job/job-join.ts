// The join string by which a setup lets the new install's agent in. It is made when the setup agent
// launches the job, given once for the attempt, over the link, and lies in no manifest, row or log.

import { isSettled } from "@exclave/core";
import { audit, type ServerContext } from "../context.ts";
import { createJoin } from "../joins.ts";
import type { AgentRow, InstallRow, JobRow } from "../store/rows.ts";
import type { Tables } from "../store/store.ts";

export type JoinAnswer = { readonly joinString: string } | { readonly refused: string };

export async function joinForJob(
  context: Pick<ServerContext, "store" | "trust" | "publicUrl" | "caFingerprint" | "now">,
  agent: AgentRow,
  { job: id, attempt }: { readonly job: string; readonly attempt: number },
): Promise<JoinAnswer> {
  return context.store.transaction(async (tx) => {
    const found = await setupOf(tx, agent, await tx.jobs.get(id), attempt);
    if ("refused" in found) {
      const { refused: because } = found;
      const details = { attempt, because };
      await audit(tx, context, { actor: agent.id, action: "join.refused", subject: id, details });
      return found;
    }
    const { job, install } = found;
    await tx.jobs.put({ ...job, joinGivenAt: context.now() });
    const wanted = { kind: "install", audience: install.id, install, by: agent.id } as const;
    const { joinString } = await createJoin(tx, context, wanted);
    return { joinString };
  });
}

async function setupOf(
  tx: Tables,
  { audience }: AgentRow,
  job: JobRow | undefined,
  attempt: number,
): Promise<{ job: JobRow; install: InstallRow } | { refused: string }> {
  if (!job || job.audience !== audience || job.attempt !== attempt) {
    return { refused: "that is not a job of this agent" };
  }
  if (job.purpose.kind !== "setup") return { refused: "the job is no setup" };
  if (isSettled(job.state)) return { refused: `the job has ended (${job.state.status})` };
  if (job.joinGivenAt !== null) {
    return { refused: "the join string of this attempt was given already" };
  }
  const install = job.install === null ? undefined : await tx.installs.get(job.install);
  return install ? { job, install } : { refused: "its install is not known here any more" };
}
