// A server with one well-behaved agent and one reader, first alone and then beside a malicious agent with its own
// keys and a viewer's token that both send as much as they can.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { createClient, createToken, listAgents } from "@exclave/api";
import type { Flood } from "./flooder.ts";
import { connectAgent, joinVendorAgent, type ScriptedAgent } from "./scripted-agent.ts";
import {
  endProcess,
  residentBytes,
  type ServerProcess,
  startServerProcess,
  withChildren,
} from "./server-process.ts";

export interface FloodReport {
  /** Milliseconds of each call and each event of the others. */
  readonly quiet: readonly number[];
  readonly flooded: readonly number[];
  readonly failures: readonly string[];
  readonly residentBytesMax: number;
  /** How much the flood got through, so that a flood of nothing is noticed. */
  readonly sent: { readonly frames: number; readonly calls: number };
}

export interface FloodOptions {
  readonly phaseMs: number;
  /**
   * The flood takes only the processor time that nobody else wants: an attacker has a machine of its own. Without it,
   * what is measured is also how the system shares two cores.
   */
  readonly isIdle: boolean;
}

export async function runFlood(
  directory: string,
  { phaseMs, isIdle }: FloodOptions,
): Promise<FloodReport> {
  const server = await startServerProcess(join(directory, "server"));
  try {
    const { url, token } = server;
    const good = await connectAgent(await joinVendorAgent({ url, token }, "setup"));
    const viewer = await createClient({ url, token }).call(createToken, {
      body: { name: "viewer", role: "viewer" },
    });
    const failures: string[] = [];
    await measure(good, server, 1_000, []);
    const quiet = await measure(good, server, phaseMs, failures);

    const stop = new AbortController();
    const flooder = await startFlooder({ url, token, viewer: viewer.token }, isIdle);
    const resident = watchResident(server.child, stop.signal);
    const flooded = await measure(good, server, phaseMs, failures);
    stop.abort();
    const residentBytesMax = await resident;
    const sent = await flooder.stop();
    return { quiet, flooded, failures, residentBytesMax, sent };
  } finally {
    await endProcess(server.child);
  }
}

/** In a process of its own: what it costs whoever floods is not what others feel. */
async function startFlooder(
  flood: Flood,
  isIdle: boolean,
): Promise<{ stop(): Promise<FloodReport["sent"]> }> {
  const program = [process.execPath, join(import.meta.dirname, "flooder.ts")];
  const [command = "", ...args] = isIdle ? ["chrt", "--idle", "0", ...program] : program;
  const child = spawn(command, args, { stdio: ["ignore", "inherit", "inherit", "ipc"] });
  child.send(flood);
  await once(child, "message");
  return {
    async stop() {
      child.send("stop");
      const [sent] = (await once(child, "message")) as [FloodReport["sent"]];
      await endProcess(child);
      return sent;
    },
  };
}

/** About 14 events and 40 calls a second: below what one agent and one token may send for ever. */
const CALLS_PER_EVENT = 3;
const BETWEEN_MS = 15;

/** One after the other, so that each waits for nobody but the server. */
async function measure(
  agent: ScriptedAgent,
  { url, token }: ServerProcess,
  ms: number,
  failures: string[],
): Promise<number[]> {
  const client = createClient({ url, token });
  const times: number[] = [];
  const end = performance.now() + ms;
  const calls = [
    () => agent.say({ type: "alarm", at: 1, code: "x", because: "x" }),
    ...Array.from({ length: CALLS_PER_EVENT }, () => () => client.call(listAgents)),
  ];
  while (performance.now() < end) {
    for (const work of calls) {
      const began = performance.now();
      await work().catch((reason: unknown) => failures.push(String(reason)));
      times.push(performance.now() - began);
      await sleep(BETWEEN_MS);
    }
  }
  return times;
}

async function watchResident({ pid = 0 }: ChildProcess, signal: AbortSignal): Promise<number> {
  let most = 0;
  while (!signal.aborted) {
    const sum = withChildren(pid).reduce((bytes, one) => bytes + residentBytes(one), 0);
    most = Math.max(most, sum);
    await sleep(50);
  }
  return most;
}
