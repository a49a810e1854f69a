// One real install on this machine, made by the real line: what its agent takes, how fast that is back after kill -9, and
// what the install costs while nothing changes in it.

import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { createClient, getInstall } from "@exclave/api";
import { residentBytes } from "@exclave/server/testing/load";
import {
  createWorld,
  processes,
  ROOT,
  untilHealthy,
  type World,
} from "../../tests/e2e/testing/harness.ts";
import { type Bench, type Figure, percentile, round, say } from "../figure.ts";
import { openAccount } from "./processor-account.ts";

export const OWN_INSTALL_BENCHES: readonly Bench[] = [
  { name: "agent", run: (_, size) => withInstall(1, (world) => agent(world, size)) },
  { name: "install-idle-cpu", run: (_, size = 20) => withInstall(size, idle) },
];

const NAME = "acme";

async function* withInstall(
  components: number,
  measure: (world: World) => AsyncIterable<Figure>,
): AsyncIterable<Figure> {
  const endings: (() => Promise<void>)[] = [];
  execFileSync(process.execPath, [join(ROOT, "tools/build-images.ts"), "--if-needed"]);
  const world = await createWorld({ after: (work) => void endings.push(work) });
  try {
    await world.up("--port", String(await freePort()));
    await world.exclave("release", writeApp(world, components), "--channel", "stable", "--wait");
    await world.exclave("install", "create", NAME, "--app", "shop", "--wait");
    await untilHealthy(world, NAME);
    say(`an install of ${components} components is healthy`);
    yield* measure(world);
  } finally {
    for (const end of endings) await end();
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

/** Every other one is a program that is kept up; both kinds are looked at as often as they are unless told otherwise. */
function writeApp(world: World, components: number): string {
  const entries = Array.from({ length: components }, (_, n) => {
    const name = `part${n}`;
    if (n % 2 === 1) {
      return `  - { name: ${name}, type: service, source: ./part, command: [sleep, "1000000"] }\n`;
    }
    return `  - { name: ${name}, type: command, source: ./part, apply: [./apply.sh], destroy: [./apply.sh] }\n`;
  });
  world.write("shop/part/apply.sh", "#!/bin/sh\nexit 0\n");
  world.write("shop/exclave.yaml", `app: shop\ncomponents:\n${entries.join("")}`);
  return "shop";
}

const AGENT_MB_MAX = 90;
const REATTACHED_SECONDS_MAX = 3;

async function* agent(world: World, kills = 5): AsyncIterable<Figure> {
  const place = await world.install(NAME);
  const pidOf = () => world.pids("agent", "install", place.id).at(0) ?? agentPid(world);
  const residentMB = round(residentBytes(pidOf()) / 1024 / 1024, 0);
  yield {
    figure: "agent-rss",
    value: residentMB,
    unit: "MB",
    beside: { goal: `<= ${AGENT_MB_MAX}`, isMet: residentMB <= AGENT_MB_MAX },
  };
  const client = clientIn(world);
  const isOnline = async () =>
    (await client.call(getInstall, { params: { install: NAME } })).agent.status === "online";
  const times: number[] = [];
  for (let kill = 0; kill < kills; kill++) {
    process.kill(pidOf(), "SIGKILL");
    const killed = performance.now();
    while (await isOnline()) await sleep(5);
    while (!(await isOnline())) await sleep(20);
    times.push((performance.now() - killed) / 1_000);
    // Its supervisor waits longer for one that ends again at once.
    await sleep(15_000);
  }
  const median = percentile(times, 0.5);
  yield {
    figure: "agent-reattach",
    value: round(median, 2),
    unit: "s from kill -9 until it is linked again, median",
    beside: {
      goal: `<= ${REATTACHED_SECONDS_MAX}`,
      isMet: median <= REATTACHED_SECONDS_MAX,
      kills,
      slowest: round(Math.max(...times), 2),
    },
  };
}

function agentPid(world: World): number {
  const found = processes(world.place).filter(
    ({ command }) => /agent/.test(command) && / install /.test(command),
  );
  const [first] = found;
  if (!first || found.length > 1) throw new Error(`${found.length} processes look like the agent`);
  return first.pid;
}

function clientIn({ home }: World) {
  const read = (file: string) => readFileSync(join(home, "server", file), "utf8").trim();
  return createClient({ url: `http://127.0.0.1:${read("port")}`, token: read("admin-token") });
}

const IDLE_SHARE_MAX = 0.02;
const CALM_MS = 30_000;
/** Two looks at each component. */
const IDLE_MS = 60_000;

async function* idle(world: World): AsyncIterable<Figure> {
  const account = openAccount();
  if (!account) {
    say("this machine keeps no account of processor time by group: no figure");
    return;
  }
  try {
    await sleep(CALM_MS);
    // What they start from now on belongs to them.
    const mine = processes(join(world.home, "installs")).map(({ pid }) => pid);
    for (const pid of mine) account.add(pid);
    const [spent, began] = [account.spentMs(), performance.now()];
    await sleep(IDLE_MS);
    const share = (account.spentMs() - spent) / (performance.now() - began);
    const { components } = await world.install(NAME);
    yield {
      figure: `install-idle-cpu-${components.length}`,
      value: round(share * 100, 1),
      unit: "% of a core, all processes of the install and its status jobs",
      beside: {
        goal: `<= ${IDLE_SHARE_MAX * 100} with 20 components`,
        isMet: share <= IDLE_SHARE_MAX,
        processes: mine.length,
        residentMB: round(mine.reduce((sum, pid) => sum + residentBytes(pid), 0) / 1024 / 1024, 0),
        overSeconds: IDLE_MS / 1_000,
      },
    };
  } finally {
    account.close();
  }
}
