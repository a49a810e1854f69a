// Several server processes on one PostgreSQL database and one data directory, behind a balancer, with agents that speak
// the whole protocol and whose jobs are timers.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { createClient, listAgents } from "@exclave/api";
import {
  createFleet,
  createPeople,
  endProcess,
  moveToPostgres,
  type RunningFleet,
  type ServerProcess,
  seedFleet,
  startServerProcess,
} from "@exclave/server/testing/load";
import type { PostgresCluster } from "@exclave/server/testing/postgres";
import { createDatabase } from "../../database/testing/postgres-database.ts";
import { until } from "../../testing/harness.ts";
import { type Balancer, startBalancer } from "./balancer.ts";

export interface RunningServer extends ServerProcess {
  readonly port: number;
}

export interface FleetWorld {
  readonly cluster: PostgresCluster;
  readonly balancer: Balancer;
  readonly fleet: RunningFleet;
  readonly installs: readonly string[];
  /** Starts one more, at the port of one that has ended if that is given. */
  start(port?: number): Promise<RunningServer>;
  ask(install: string): Promise<string>;
  /** Asks for jobs, one after the other, until it is stopped. A call that fails is made once more. */
  load(): Load;
  /** Agents that each server holds, by the rows. */
  heldBy(): Promise<ReadonlyMap<string, number>>;
  query(statement: string): Promise<readonly Record<string, unknown>[]>;
}

export interface Load {
  readonly asked: readonly string[];
  stop(): Promise<void>;
}

const RETRY_MS = 2_000;

export async function createFleetWorld(t: TestContext, agents: number): Promise<FleetWorld> {
  const { cluster, url: database } = await createDatabase(t);
  const place = mkdtempSync(join(tmpdir(), "exclave-servers-"));
  t.after(() => rmSync(place, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 }));
  const data = join(place, "server");
  const seeded = await seedFleet(data, agents);
  await moveToPostgres({ file: join(data, "exclave.db"), url: database, now: Date.now });
  const balancer = await startBalancer();
  t.after(() => balancer.close());
  const fleet = createFleet(seeded);
  t.after(() => fleet.stop());
  const people = createPeople(balancer.url, seeded);
  t.after(() => people.close());
  const installs = seeded.members.map(({ install }) => install);
  const world: FleetWorld = {
    cluster,
    balancer,
    fleet,
    installs,
    async start(given) {
      const port = given ?? (await freePort());
      const started = await startServerProcess(data, {
        port,
        serverArguments: ["--public-url", balancer.url],
        env: { EXCLAVE_DATABASE_URL: database },
      });
      t.after(() => endProcess(started.child));
      return { ...started, port };
    },
    ask: (install) => people.ask(install),
    load: () => startLoad(world),
    async heldBy() {
      const rows = await world.query("SELECT body FROM agents");
      const counts = new Map<string, number>();
      for (const { body } of rows) {
        const { kind, heldBy } = JSON.parse(String(body)) as {
          kind: string;
          heldBy: string | null;
        };
        if (kind === "install" && heldBy !== null)
          counts.set(heldBy, (counts.get(heldBy) ?? 0) + 1);
      }
      return counts;
    },
    query: (statement) => cluster.run(statement, new URL(database).pathname.slice(1)),
  };
  return world;
}

function startLoad(world: FleetWorld): Load {
  const { installs, fleet } = world;
  const asked: string[] = [];
  const over = new AbortController();
  const callers = [0, 1, 2].map(async (caller) => {
    for (let n = caller; !over.signal.aborted; n += 3) {
      const install = installs[n % installs.length] ?? "";
      asked.push(await world.ask(install).catch(() => askAgain(install)));
      await sleep(50);
    }
  });
  /** Once more, when the agents that moved are back. */
  async function askAgain(install: string): Promise<string> {
    await until("all agents are back", () => fleet.liveCount() === installs.length);
    await sleep(RETRY_MS);
    return world.ask(install);
  }

  const done = Promise.all(callers);
  // Told by whoever stops it.
  done.catch(() => undefined);
  return {
    asked,
    async stop() {
      over.abort();
      await done;
    },
  };
}

export async function online(server: ServerProcess): Promise<number> {
  const client = createClient({ url: addressOf(server), token: server.token });
  const { items } = await client.call(listAgents, { query: { limit: 200 } });
  return items.filter(({ kind, status }) => kind === "install" && status === "online").length;
}

/** Its own, and not the one that all of them are reached at. */
export function addressOf(server: ServerProcess): string {
  return `http://127.0.0.1:${(server as RunningServer).port}`;
}

/** Everything that was asked for has ended, once, and each step of it is on record once. */
export async function assertNothingLost(
  world: FleetWorld,
  asked: readonly string[],
): Promise<void> {
  await until("every job has ended", async () => {
    const open = await world.query(
      "SELECT count(*)::int AS count FROM jobs WHERE state IN ('queued', 'offered', 'accepted', 'running')",
    );
    return open[0]?.["count"] === 0;
  });
  const jobs = await world.query("SELECT key, state FROM jobs WHERE install IS NOT NULL");
  const states = new Map(jobs.map(({ key, state }) => [String(key), String(state)]));
  assert.deepEqual(
    asked.filter((job) => states.get(job) !== "succeeded"),
    [],
    "every job that was asked for has succeeded",
  );
  const doubles = await world.query(
    `SELECT action, subject FROM audit WHERE action LIKE 'job.%'
     GROUP BY action, subject HAVING count(*) > 1`,
  );
  assert.deepEqual(doubles, [], "nothing is on record twice");
  const gaps = await world.query(
    `SELECT seq FROM (SELECT seq, prev_hash, lag(hash) OVER (ORDER BY seq) AS before FROM audit) AS chain
     WHERE seq > 1 AND prev_hash IS DISTINCT FROM before`,
  );
  assert.deepEqual(gaps, [], "the record is one chain");
}

async function freePort(): Promise<number> {
  const probe = createServer();
  await new Promise<void>((resolve) => probe.listen(0, "127.0.0.1", resolve));
  const { port } = probe.address() as AddressInfo;
  await new Promise<void>((resolve) => probe.close(() => resolve()));
  return port;
}
