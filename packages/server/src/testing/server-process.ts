// The server program as a process of its own, the way it is run.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const SERVER = join(import.meta.dirname, "../main.ts");

export interface ServerProcess {
  readonly child: ChildProcess;
  readonly data: string;
  readonly url: string;
  readonly token: string;
}

export interface ServerProcessOptions {
  readonly port?: number;
  readonly nodeArguments?: readonly string[];
  readonly serverArguments?: readonly string[];
  readonly env?: NodeJS.ProcessEnv;
}

export async function startServerProcess(
  data: string,
  { port = 0, nodeArguments = [], serverArguments = [], env = {} }: ServerProcessOptions = {},
): Promise<ServerProcess> {
  const place = ["--data", data, "--address", `127.0.0.1:${port}`];
  const args = [...nodeArguments, SERVER, ...place, ...serverArguments];
  const child = spawn(process.execPath, args, {
    env: { ...process.env, EXCLAVE_LOG_LEVEL: "silent", ...env },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [line] = (await once(child.stdout, "data")) as [Buffer];
  const { url } = JSON.parse(line.toString()) as { url: string };
  const token = readFileSync(join(data, "admin-token"), "utf8").trim();
  return { child, data, url, token };
}

/** Resolves when the process is gone. */
export async function endProcess(
  child: ChildProcess,
  signal: NodeJS.Signals = "SIGKILL",
): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill(signal);
  await once(child, "exit");
}

/** A process and those it has started: of a server its signer, and the one that checks apps. */
export function withChildren(pid: number): readonly number[] {
  const text = readIfThere(`/proc/${pid}/task/${pid}/children`);
  return [pid, ...text.split(" ").filter(Boolean).map(Number)];
}

/** Of one that has just ended: nothing. */
export function residentBytes(pid: number): number {
  const status = readIfThere(`/proc/${pid}/status`);
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1] ?? "0") * 1024;
}

/** Processor time it has used so far, in ticks of a hundredth of a second. */
export function processorMs(pid: number): number {
  const stat = readIfThere(`/proc/${pid}/stat`);
  // After the name, which may hold anything: state is the first field, user and system time the 12th and 13th.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11] ?? 0) + Number(fields[12] ?? 0)) * 10;
}

function readIfThere(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}
