// What agents cost that are connected and have nothing to do, beside connections that nothing stands behind.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import {
  endProcess,
  type Fleet,
  processorMs,
  residentBytes,
  until,
  withChildren,
} from "@exclave/server/testing/load";
import { WebSocket } from "ws";
import { type Bench, type Figure, round, say } from "../figure.ts";
import { type World, withFleet } from "./fleet-world.ts";

export const AGENTS_BENCHES: readonly Bench[] = [
  { name: "agents-rss", run: rss },
  { name: "agents-idle-cpu", run: idle },
];

const SIZES = [2_000, 5_000, 10_000];
const RSS_MB_MAX = 1_000;
const RATIO_MAX = 1.5;
/** After the last connection: what greeting them left behind is collected. */
const CALM_MS = 10_000;
const DIALLING_MAX = 100;

async function* rss(directory: string, size?: number): AsyncIterable<Figure> {
  const sizes = size === undefined ? SIZES : [size];
  yield* withFleet(Math.max(...sizes), { hasTls: true, connected: 0 }, async function* (world) {
    for (const count of sizes) {
      await world.agents.connect(world.server.url, count);
      await sleep(CALM_MS);
      const [pid = 0, ...children] = withChildren(world.server.child.pid ?? 0);
      const ours = megabytes(pid);
      const bare = await bareMegabytes(directory, world.fleet, count);
      const ratio = round(ours / bare);
      yield {
        figure: `agents-rss-${count}`,
        value: ours,
        unit: "MB",
        beside: {
          goal: `<= ${RSS_MB_MAX} and <= ${RATIO_MAX} × a bare ws server`,
          isMet: ours <= RSS_MB_MAX && ratio <= RATIO_MAX,
          ratio,
          bareMB: bare,
          besideItMB: children.map(megabytes).join(" + "),
          links: "mutual TLS 1.3",
        },
      };
    }
  });
}

function megabytes(pid: number): number {
  return round(residentBytes(pid) / 1024 / 1024, 0);
}

/** The same agents' keys and certificates, one message each, then silence. */
async function bareMegabytes(directory: string, fleet: Fleet, count: number): Promise<number> {
  const file = join(directory, "bare.json");
  await writeFile(file, JSON.stringify({ ...fleet.beside, ca: fleet.ca }), { mode: 0o600 });
  const child = spawn(process.execPath, [join(import.meta.dirname, "bare-server.ts"), file], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const sockets: WebSocket[] = [];
  try {
    const port = await portOf(child);
    let live = 0;
    for (const { certificate: cert, privateKey: key } of fleet.members.slice(0, count)) {
      const socket = new WebSocket(`wss://127.0.0.1:${port}`, {
        perMessageDeflate: false,
        ca: fleet.ca,
        cert,
        key,
      });
      sockets.push(socket);
      socket.on("open", () => socket.send("hello"));
      socket.on("message", () => live++);
      socket.on("error", (reason) => say(`a bare connection failed: ${reason.message}`));
      await until(() => sockets.length - live < DIALLING_MAX, "bare connections are made");
    }
    await until(() => live === count, "all bare connections are made");
    await sleep(CALM_MS);
    return megabytes(child.pid ?? 0);
  } finally {
    for (const socket of sockets) socket.terminate();
    await endProcess(child);
  }
}

async function portOf({ stdout }: ChildProcess): Promise<number> {
  const [line] = (await once(stdout!, "data")) as [Buffer];
  return Number(line.toString());
}

const IDLE_SHARE_MAX = 0.05;
const IDLE_MS = 30_000;

async function* idle(_: string, size = 10_000): AsyncIterable<Figure> {
  yield* withFleet(size, { hasTls: true }, idleOf);
}

async function* idleOf(world: World): AsyncIterable<Figure> {
  await sleep(CALM_MS);
  await world.heldMs();
  const pids = withChildren(world.server.child.pid ?? 0);
  const spentMs = () => pids.reduce((sum, pid) => sum + processorMs(pid), 0);
  const [spent, began] = [spentMs(), performance.now()];
  await sleep(IDLE_MS);
  const share = (spentMs() - spent) / (performance.now() - began);
  const count = world.agents.liveCount();
  yield {
    figure: `agents-idle-cpu-${count}`,
    value: round(share * 100, 1),
    unit: "% of a core",
    beside: {
      goal: `<= ${IDLE_SHARE_MAX * 100}`,
      isMet: share <= IDLE_SHARE_MAX,
      overSeconds: IDLE_MS / 1_000,
      heldMs: await world.heldMs(),
    },
  };
}
