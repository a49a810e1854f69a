// Other programs: which of them are here, and what one run of a program takes.

import { execFileSync, spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, join } from "node:path";

const CACHE = process.env["EXCLAVE_TEST_TOOLS"] ?? join(homedir(), ".cache/exclave-test-tools");
const PATHS = [join(CACHE, "bin"), ...(process.env["PATH"] ?? "").split(delimiter)];

export function findProgram(name: string): string | undefined {
  return PATHS.map((path) => join(path, name)).find((file) => existsSync(file));
}

export function versionOf(file: string, args: readonly string[]): string {
  try {
    const text = execFileSync(file, args, { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
    return /\d+\.\d+\.\d+/.exec(text)?.[0] ?? "";
  } catch {
    return "";
  }
}

export interface Run {
  readonly seconds: number;
  /** The most memory the process ever held. */
  readonly peakBytes: number;
  readonly stdout: string;
}

export async function runProgram(file: string, args: readonly string[]): Promise<Run> {
  const startedAt = performance.now();
  const child = spawn(file, args, { stdio: ["ignore", "pipe", "pipe"] });
  let stdout = "";
  let stderr = "";
  let peakBytes = 0;
  child.stdout.on("data", (chunk: Buffer) => {
    stdout += chunk.toString();
  });
  child.stderr.on("data", (chunk: Buffer) => {
    stderr = (stderr + chunk.toString()).slice(-2_000);
  });
  // The kernel keeps the peak itself; it only has to be read before the process is gone.
  const watching = setInterval(() => {
    peakBytes = Math.max(peakBytes, peakOf(child.pid));
  }, 20);
  try {
    const code = await new Promise<number | null>((resolve, reject) => {
      child.once("error", reject);
      child.once("close", resolve);
    });
    const seconds = (performance.now() - startedAt) / 1_000;
    if (code !== 0) throw new Error(`${file} ${args.join(" ")} ended with ${code}: ${stderr}`);
    return { seconds, peakBytes, stdout };
  } finally {
    clearInterval(watching);
  }
}

function peakOf(pid: number | undefined): number {
  try {
    const status = readFileSync(`/proc/${pid}/status`, "utf8");
    return Number(/VmHWM:\s*(\d+) kB/.exec(status)?.[1] ?? 0) * 1_024;
  } catch {
    return 0;
  }
}
