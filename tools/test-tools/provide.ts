// Makes the real programs of the catalogue available, and says plainly which could not be had.

import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, join } from "node:path";
import { TEST_TOOLS, type TestTool } from "./catalog.ts";
import { buildGoTool } from "./go-tool.ts";

export const TOOLS_CACHE =
  process.env["EXCLAVE_TEST_TOOLS"] ?? join(homedir(), ".cache", "exclave-test-tools");

const BIN = join(TOOLS_CACHE, "bin");

/** The PATH under which everything that could be had is found. */
export async function provideTestTools(say: (line: string) => void): Promise<string> {
  mkdirSync(BIN, { recursive: true });
  const path = [BIN, process.env["PATH"] ?? ""].join(delimiter);
  for (const tool of TEST_TOOLS) {
    if (isOnPath(tool.name, path)) continue;
    say(`fetching ${tool.name} …`);
    const reason = await fetchTool(tool);
    if (reason) say(`not to be had: ${tool.name} (${reason}); not tried: ${tool.tries}`);
  }
  return path;
}

/** Undefined when it is there now; otherwise why not. */
async function fetchTool({ name, go, debian }: TestTool): Promise<string | undefined> {
  try {
    if (debian) {
      if (!isOnPath("apt-get") || process.getuid?.() !== 0) return "needs apt-get as root";
      installDebian(debian);
      return undefined;
    }
    if (go) {
      if (!isOnPath("go")) return "needs go";
      await buildGoTool(go, join(BIN, name));
      return undefined;
    }
    return "no package manager of this machine has it";
  } catch (reason) {
    return lastLine(reason);
  }
}

let isIndexFresh = false;

function installDebian(name: string): void {
  const options = { stdio: "ignore", timeout: 10 * 60_000 } as const;
  if (!isIndexFresh) execFileSync("apt-get", ["update", "-qq"], options);
  isIndexFresh = true;
  execFileSync("apt-get", ["install", "-y", "-qq", "--no-install-recommends", name], {
    ...options,
    env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
  });
}

export function isOnPath(program: string, path = process.env["PATH"] ?? ""): boolean {
  return path
    .split(delimiter)
    .some((directory) => directory !== "" && existsSync(join(directory, program)));
}

function lastLine(reason: unknown): string {
  const text = reason instanceof Error ? reason.message : String(reason);
  return text.trim().split("\n").at(-1) ?? "unknown reason";
}
