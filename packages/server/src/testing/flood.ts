// A server with one well-behaved agent and one reader, first alone and then beside a malicious agent with its own
// keys and a viewer's token that both send as much as they can.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { createClient, createToken, listAgents } from "@exclave/api";
import type { Flood } from "./flooder.ts";
import { connectAgent, joinVendorAgent, type ScriptedAgent } from "./scripted-agent.ts";

const SERVER = join(import.meta.dirname, "../main.ts");

export interface FloodReport {
  /** Milliseconds of each call and each event of the others. */
  readonly quiet: readonly number[];
  readonly flooded: readonly number[];
  readonly failures: readonly string[];
  readonly residentBytesMax: number;
  /** How much the flood got through, so that a flood of nothing is noticed. */
  readonly sent: { readonly frames: number; readonly calls: number };
}

export async function runFlood(directory: string, phaseMs: number): Promise<FloodReport> {
  const server = await startServerProcess(directory);
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
    const flooder = await startFlooder({ url, token, viewer: viewer.token });
    const resident = watchResident(server.child, stop.signal);
    const flooded = await measure(good, server, phaseMs, failures);
    stop.abort();
    const residentBytesMax = await resident;
    const sent = await flooder.stop();
    return { quiet, flooded, failures, residentBytesMax, sent };
  } finally {
    await end(server.child);
  }
}

/** In a thread of its own: what it costs whoever floods is not what others feel. */
async function startFlooder(flood: Flood): Promise<{ stop(): Promise<FloodReport["sent"]> }> {
  const worker = new Worker(new URL("./flooder.ts", import.meta.url), { workerData: flood });
  await once(worker, "message");
  return {
    async stop() {
      worker.postMessage("stop");
      const [sent] = (await once(worker, "message")) as [FloodReport["sent"]];
      await worker.terminate();
      return sent;
    },
  };
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill("SIGKILL");
  await once(child, "exit");
}

interface ServerProcess {
  readonly child: ChildProcess;
  readonly url: string;
  readonly token: string;
}

async function startServerProcess(directory: string): Promise<ServerProcess> {
  const data = join(directory, "server");
  const args = [SERVER, "--data", data, "--address", "127.0.0.1:0"];
  const env = { ...process.env, EXCLAVE_LOG_LEVEL: "silent" };
  const child = spawn(process.execPath, args, { env, stdio: ["ignore", "pipe", "inherit"] });
  const [line] = (await once(child.stdout, "data")) as [Buffer];
  const { url } = JSON.parse(line.toString()) as { url: string };
  return { child, url, token: readFileSync(join(data, "admin-token"), "utf8").trim() };
}

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
  while (performance.now() < end) {
    for (const work of [
      () => client.call(listAgents),
      () => agent.say({ type: "alarm", at: 1, code: "x", because: "x" }),
    ]) {
      const began = performance.now();
      await work().catch((reason: unknown) => failures.push(String(reason)));
      times.push(performance.now() - began);
    }
    // Below what an agent may send for ever.
    await sleep(60);
  }
  return times;
}

async function watchResident({ pid }: ChildProcess, signal: AbortSignal): Promise<number> {
  let most = 0;
  while (!signal.aborted) {
    const status = readFileSync(`/proc/${pid}/status`, "utf8");
    const kilobytes = /^VmRSS:\s+(\d+) kB/m.exec(status)?.[1] ?? "0";
    most = Math.max(most, Number(kilobytes) * 1024);
    await sleep(50);
  }
  return most;
}
