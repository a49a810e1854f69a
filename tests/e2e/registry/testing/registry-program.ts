// The registry as a program of its own, and the tools of other people that speak with it.

import { type ChildProcess, execFile, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { promisify } from "node:util";
import { ROOT } from "../../testing/harness.ts";

const REGISTRY = join(ROOT, "packages/oci/src/programs/registry-main.ts");

export interface RegistryProgram {
  readonly child: ChildProcess;
  readonly url: string;
  readonly host: string;
}

export async function startRegistry(
  t: TestContext,
  directory: string,
  address = "127.0.0.1:0",
): Promise<RegistryProgram> {
  const args = [REGISTRY, "--directory", directory, "--anonymous", "--address", address];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  t.after(() => child.kill("SIGKILL"));
  const [line] = (await once(child.stdout, "data")) as [Buffer];
  const url = line.toString("utf8").trim();
  return { child, url, host: new URL(url).host };
}

export function temporaryPlace(t: TestContext): string {
  const place = mkdtempSync(join(tmpdir(), "exclave-registry-"));
  t.after(() => rmSync(place, { recursive: true, force: true }));
  return place;
}

/** Why a test that needs a tool cannot run here; false when it can. */
export function unlessInstalled(tool: string): string | false {
  const found = spawnSync(tool, ["--help"], { stdio: "ignore" });
  return found.error ? `${tool} is not installed` : false;
}

export type Run = (tool: string, ...args: readonly string[]) => Promise<string>;

/** Runs tools with a home of their own, so that nothing a person has set up counts. */
export function toolsAt(place: string): Run {
  const home = join(place, "home");
  mkdirSync(home, { recursive: true });
  const env = {
    PATH: process.env["PATH"],
    HOME: home,
    TMPDIR: place,
    XDG_RUNTIME_DIR: home,
    COSIGN_PASSWORD: "",
  };
  const run = promisify(execFile);
  return async (tool, ...args) => {
    const { stdout } = await run(tool, args, { env, cwd: place, maxBuffer: 16 * 1024 * 1024 });
    return stdout;
  };
}
