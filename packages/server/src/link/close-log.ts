// A log is complete when it is as long as the agent said at the job's end, and the same bytes. One that
// is over the server's limit is as complete as it gets; what is missing is on record.

import { rememberFirsts } from "../access/repeats.ts";
import { audit, type ServerContext } from "../context.ts";

type Context = Pick<ServerContext, "store" | "logs" | "now" | "repeats">;

/** Of the newest jobs; older ones were compared when they ended, or at an earlier start. */
const LOOKED_AT = 200;

/**
 * Compares what a crash, or a backup that is older than the logs, left uncompared. Agents do not bring up
 * again what they once delivered.
 */
export async function closeLeftLogs(context: Context): Promise<void> {
  const { items } = await context.store.read.jobs.find({ limit: LOOKED_AT });
  for (const { id, log, logComplete } of items)
    if (log && !logComplete) await closeLog(context, id);
}

export async function closeLog(context: Context, jobId: string): Promise<void> {
  const { store, logs } = context;
  const job = await store.read.jobs.get(jobId);
  if (!job?.log || job.logComplete) return;
  const { bytes, sha256 } = job.log;
  const size = await logs.sizeBytes(job.id, job.attempt);
  if (size < bytes) return;
  const leftOutBytes = logs.leftOutBytes(size);
  const isSame = size === bytes && (await logs.sha256(job.id, job.attempt)) === sha256;
  const repeats = rememberFirsts(context.repeats);
  await store.transaction(async (tx) => {
    repeats.begin();
    const now = await tx.jobs.get(jobId);
    if (!now || now.logComplete) return;
    if (leftOutBytes > 0) {
      await tx.jobs.put({ ...now, logComplete: true });
      await audit(tx, context, {
        actor: "server",
        action: "job.log_cut",
        subject: jobId,
        details: { said: job.log, leftOutBytes },
      });
      return;
    }
    if (isSame) return tx.jobs.put({ ...now, logComplete: true });
    const details = { said: job.log, bytes: size };
    const mismatch = { actor: "server", action: "job.log_mismatch", subject: jobId, details };
    // An agent can show it with every hello.
    if (repeats.isFirst(mismatch)) await audit(tx, context, mismatch);
  });
  if (isSame || leftOutBytes > 0) logs.seal(job.id, job.attempt);
}
