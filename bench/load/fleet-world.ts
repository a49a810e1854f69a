// A server as a process of its own with many agents that share this process, each with a key and a link of its own.

import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import { createClient, getMetrics } from "@exclave/api";
import { createServerFetch } from "@exclave/machine";
import {
  createFleet,
  createPeople,
  endProcess,
  type Fleet,
  type FleetOptions,
  type People,
  type RunningFleet,
  type ServerProcess,
  seedFleet,
  startServerProcess,
} from "@exclave/server/testing/load";
import { type Figure, round, say } from "../figure.ts";

/** Commits are durable: they are measured on the disk the project is on. */
const DISK = join(import.meta.dirname, "../../dist/bench");

export interface World {
  readonly fleet: Fleet;
  readonly agents: RunningFleet;
  readonly people: People;
  server: ServerProcess;
  /** Starts the server anew where it was, after its end. */
  restart(): Promise<void>;
  /** How late its event loop was at most since this was last asked. */
  heldMs(): Promise<number>;
}

export interface WorldOptions extends FleetOptions {
  /** Agents with certificates, on a listener that speaks TLS. */
  readonly hasTls?: boolean;
  readonly databaseUrl?: string | undefined;
  /** Agents that are connected before anything is measured; all unless given. */
  readonly connected?: number;
}

export async function* withFleet(
  installs: number,
  { hasTls = false, databaseUrl, connected = installs, logOf }: WorldOptions,
  measure: (world: World) => AsyncIterable<Figure>,
): AsyncIterable<Figure> {
  await mkdir(DISK, { recursive: true });
  const directory = await mkdtemp(join(DISK, "load-"));
  const data = join(directory, "server");
  try {
    say(`${installs} installs are seeded`);
    const fleet = await seedFleet(data, installs, { hasTls, databaseUrl });
    const start = (port = 0) =>
      startServerProcess(data, {
        port,
        nodeArguments: (process.env["BENCH_NODE_ARGUMENTS"] ?? "").split(" ").filter(Boolean),
        serverArguments: hasTls ? ["--tls"] : [],
        env: databaseUrl === undefined ? {} : { EXCLAVE_DATABASE_URL: databaseUrl },
      });
    const server = await start();
    const agents = createFleet(fleet, logOf ? { logOf } : {});
    const people = createPeople(server.url, fleet);
    const world: World = {
      fleet,
      agents,
      people,
      server,
      heldMs: () => heldMs(world.server, fleet),
      async restart() {
        world.server = await start(Number(new URL(server.url).port));
      },
    };
    try {
      const began = performance.now();
      await agents.connect(server.url, connected);
      say(`${connected} agents are connected after ${seconds(performance.now() - began)} s`);
      await world.heldMs();
      yield* measure(world);
    } finally {
      agents.stop();
      people.close();
      await endProcess(world.server.child, "SIGTERM");
    }
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

export function clientOf({ url, token }: ServerProcess, { ca }: Fleet) {
  return createClient({
    url,
    token,
    ...(ca !== undefined && { fetch: createServerFetch({ ca }) }),
  });
}

/** The gauge is set back by whoever reads it. */
async function heldMs(server: ServerProcess, fleet: Fleet): Promise<number> {
  let page = "";
  for await (const bytes of clientOf(server, fleet).bytes(getMetrics)) {
    page += Buffer.from(bytes).toString();
  }
  const line = /^nodejs_eventloop_delay_seconds\{quantile="1"\} (\S+)$/m.exec(page);
  return round(Number(line?.[1] ?? Number.NaN) * 1_000, 0);
}

export function seconds(ms: number): number {
  return round(ms / 1_000, 1);
}
