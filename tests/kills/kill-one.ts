// The death of one process: a server, an agent, a part of a job, or a connection's process in the database.

import type { PostgresCluster } from "@exclave/server/testing/postgres";
import { PROCESSES } from "../chaos/strikes.ts";
import type { World } from "../e2e/testing/harness.ts";
import type { Dice } from "../simulation/dice.ts";
import { COMMAND_MARK } from "./commands.ts";

export const KILLS = [
  "server",
  "signer",
  "install agent",
  "job keeper",
  "job runner",
  "job program",
  "database connection",
  "database backend",
] as const;

export type Kill = (typeof KILLS)[number];

/** A killed server takes seconds to come back, and the whole database recovers from a killed backend. */
const WEIGHTS: Readonly<Record<Kill, number>> = {
  server: 1,
  signer: 1,
  "install agent": 1,
  "job keeper": 2,
  "job runner": 2,
  "job program": 8,
  "database connection": 8,
  "database backend": 1,
};

const BACKENDS =
  "SELECT pid FROM pg_stat_activity WHERE datname LIKE 'test_%' AND backend_type = 'client backend'";

/** What was killed; undefined where there was none of that kind. */
export async function killOne(
  world: World,
  cluster: PostgresCluster,
  dice: Dice,
): Promise<Kill | undefined> {
  const there = await Promise.all(
    KILLS.map(async (kind) => ({ kind, pids: await pidsOf(world, cluster, kind) })),
  );
  const found = there.filter(({ pids }) => pids.length > 0);
  const { kind, pids } =
    dice.pick(found.flatMap((one) => Array<typeof one>(WEIGHTS[one.kind]).fill(one))) ?? {};
  const pid = dice.pick(pids ?? []);
  if (kind === undefined || pid === undefined) return undefined;
  try {
    // SIGTERM ends one connection. SIGKILL has the database end them all and recover.
    process.kill(pid, kind === "database connection" ? "SIGTERM" : "SIGKILL");
    return kind;
  } catch {
    return undefined;
  }
}

async function pidsOf(world: World, cluster: PostgresCluster, kind: Kill): Promise<number[]> {
  switch (kind) {
    case "database connection":
    case "database backend": {
      const rows = await cluster.run(BACKENDS).catch(() => []);
      return rows.map(({ pid }) => Number(pid));
    }
    case "job program":
      return world.pids(COMMAND_MARK);
    default:
      return world.pids(...PROCESSES[kind]);
  }
}
