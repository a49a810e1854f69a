// Which logs an agent may write: those of its own jobs, of the attempt there is, and after the job's end no more
// than it said then. Nothing else makes a file.

import type { ServerContext } from "../context.ts";
import type { AgentRow } from "../store/rows.ts";

export interface WritableLog {
  /** How much of it is on disk. */
  readonly durable: number;
  /** How long it may become; absent while the job runs. */
  readonly most?: number;
}

export async function writableLog(
  { store, logs }: Pick<ServerContext, "store" | "logs">,
  agent: AgentRow | undefined,
  { job, attempt }: { readonly job: string; readonly attempt: number },
  by: "writer" | "new_writer",
): Promise<WritableLog | undefined> {
  const row = await store.read.jobs.get(job);
  if (!agent || row?.audience !== agent.audience || row.attempt !== attempt) return undefined;
  if (row.state.status === "queued") return undefined;
  const durable = await logs.sizeBytes(job, attempt, { by });
  // Nobody said how long the log of an abandoned job is: what its agent still has of it is taken.
  const isOpen = row.endedAt === null || (row.state.status === "unknown" && row.log === null);
  return isOpen ? { durable } : { durable, most: row.log?.bytes ?? 0 };
}
