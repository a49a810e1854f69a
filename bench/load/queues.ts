// Queues that others keep in PostgreSQL, doing the least of what a dispatch does: a job is put by a commit of its own,
// taken by whoever runs it, and its end is committed. No audit, no link, nobody to be kept apart.

import { until } from "@exclave/server/testing/load";
import { Logger, makeWorkerUtils, run } from "graphile-worker";
import { PgBoss } from "pg-boss";

/** As many ask at once as of ours, over as many connections as our own pool has, and as many take jobs. */
const ASKING = 128;
const TAKING = 16;
const CONNECTIONS = 20;
const QUEUE = "bench";
const QUIET = new Logger(() => () => undefined);

/** Jobs a second. */
export async function pgBossRate(url: string, jobs: number): Promise<number> {
  const boss = new PgBoss({ connectionString: url, max: CONNECTIONS });
  boss.on("error", () => undefined);
  await boss.start();
  try {
    await boss.createQueue(QUEUE);
    let ended = 0;
    const began = performance.now();
    const takers = Array.from({ length: TAKING }, async () => {
      while (ended < jobs) {
        const [job] = await boss.fetch(QUEUE);
        if (!job) {
          await new Promise((resolve) => setTimeout(resolve, 5));
          continue;
        }
        await boss.complete(QUEUE, job.id, { ok: true });
        ended++;
      }
    });
    await askAll(jobs, () => boss.send(QUEUE, { command: ["true"] }));
    await until(() => ended >= jobs, "every job of pg-boss has ended");
    const tookMs = performance.now() - began;
    await Promise.all(takers);
    return (jobs / tookMs) * 1_000;
  } finally {
    await boss.stop({ graceful: false });
  }
}

/** Jobs a second. */
export async function graphileRate(url: string, jobs: number): Promise<number> {
  let ended = 0;
  const utils = await makeWorkerUtils({
    connectionString: url,
    maxPoolSize: CONNECTIONS,
    logger: QUIET,
  });
  await utils.migrate();
  const runner = await run({
    connectionString: url,
    maxPoolSize: CONNECTIONS,
    concurrency: TAKING,
    pollInterval: 100,
    noHandleSignals: true,
    logger: QUIET,
    taskList: {
      [QUEUE]: async () => {
        ended++;
      },
    },
  });
  try {
    const began = performance.now();
    await askAll(jobs, () => utils.addJob(QUEUE, { command: ["true"] }));
    await until(() => ended >= jobs, "every job of graphile-worker has ended");
    return (jobs / (performance.now() - began)) * 1_000;
  } finally {
    await runner.stop();
    await utils.release();
  }
}

async function askAll(jobs: number, ask: () => Promise<unknown>): Promise<void> {
  let asked = 0;
  const asking = Array.from({ length: ASKING }, async () => {
    while (asked++ < jobs) await ask();
  });
  await Promise.all(asking);
}
