// A component with a real tool, real state and countable side effects: each resource appends a line
// to a file when it is created and when it is destroyed.

import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import type { TestContext as NodeTest } from "node:test";
import {
  createTestContext,
  type TestContext,
  type TestContextOptions,
  type TestRun,
} from "@exclave/plugin-sdk/testing";
import { plugin } from "../plugin.ts";
import { ToolName } from "../tool.ts";

/** Those of the two that this machine has. */
export const TOOLS: readonly ToolName[] = ToolName.options.filter(hasProgram);

/** Why tests with a real tool cannot run here; false where they can. */
export const NO_TOOL: string | false =
  TOOLS.length > 0 ? false : "neither terraform nor tofu is on the PATH";

function hasProgram(name: string): boolean {
  try {
    execFileSync(name, ["version"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

type PluginOperation = Parameters<TestContext["run"]>[0];

export interface ModuleUnderTest {
  readonly directory: string;
  readonly stateDirectory: string;
  /** Replaces the module's files. */
  write(files: Readonly<Record<string, string>>): Promise<void>;
  run(operation: PluginOperation, options?: TestContextOptions): Promise<TestRun>;
  /** Plans, then applies exactly that plan, as an install does. */
  deploy(options?: TestContextOptions): Promise<TestRun>;
  /** What resources did, in order. */
  effects(): Promise<string[]>;
  launch(operation: "plan" | "apply" | "destroy", options?: TestContextOptions): JobProcess;
  readonly effectsFile: string;
}

export async function moduleUnderTest(
  t: NodeTest,
  tool: ToolName | "auto" = "auto",
): Promise<ModuleUnderTest> {
  const directory = await mkdtemp(join(tmpdir(), "exclave-terraform-"));
  t.after(() => rm(directory, { recursive: true, force: true, maxRetries: 3 }));
  const files = join(directory, "files");
  const effectsFile = join(directory, "effects");
  const stateDirectory = join(directory, "state");
  const places = {
    files,
    stateDirectory,
    workDirectory: join(directory, "work"),
    runDirectory: join(directory, "run"),
    component: "database",
  };

  return { directory, stateDirectory, effectsFile, write, run, deploy, effects, launch };

  async function write(contents: Readonly<Record<string, string>>): Promise<void> {
    await rm(files, { recursive: true, force: true });
    for (const [name, content] of Object.entries(contents)) {
      await mkdir(dirname(join(files, name)), { recursive: true });
      await writeFile(join(files, name), content);
    }
  }

  async function run(
    operation: PluginOperation,
    options: TestContextOptions = {},
  ): Promise<TestRun> {
    const context = await createTestContext(plugin, places);
    t.after(() => rm(context.directory, { recursive: true, force: true }));
    return context.run(operation, withTool(options));
  }

  async function deploy(options: TestContextOptions = {}): Promise<TestRun> {
    const { plan } = await run("plan", options);
    return run("apply", { ...options, parameters: { planFile: plan?.file } });
  }

  async function effects(): Promise<string[]> {
    const text = await readFile(effectsFile, "utf8").catch(() => "");
    return text.split("\n").filter((line) => line !== "");
  }

  function launch(
    operation: "plan" | "apply" | "destroy",
    options: TestContextOptions = {},
  ): JobProcess {
    return launchJob(t, operation, { ...places, ...withTool(options) }, directory);
  }

  function withTool(options: TestContextOptions): TestContextOptions {
    return { ...options, config: { tool, ...options.config } };
  }
}

export interface JobProcess {
  readonly pid: number;
  /** Resolves once a line of its output contains the text. */
  said(text: string): Promise<void>;
  signal(signal: NodeJS.Signals): void;
  /** Kills the job and everything it started, as a whole. */
  killAll(): Promise<void>;
  readonly ended: Promise<{ readonly code: number | null; readonly stderr: string }>;
}

function launchJob(
  t: NodeTest,
  operation: string,
  options: TestContextOptions,
  temporary: string,
): JobProcess {
  const program = join(import.meta.dirname, "job-process.ts");
  const child = spawn(process.execPath, [program, operation, JSON.stringify(options)], {
    stdio: ["ignore", "pipe", "pipe"],
    // A killed job cannot clean up after itself; this goes with the test.
    env: { ...process.env, TMPDIR: temporary },
    detached: true,
  });
  const pid = child.pid;
  if (pid === undefined) throw new Error("the job did not start");
  const signalGroup = (signal: NodeJS.Signals) => {
    try {
      process.kill(-pid, signal);
    } catch (reason) {
      if ((reason as NodeJS.ErrnoException).code !== "ESRCH") throw reason;
    }
  };
  t.after(() => signalGroup("SIGKILL"));

  const heard: string[] = [];
  const waiting = new Set<() => void>();
  createInterface({ input: child.stdout }).on("line", (line) => {
    heard.push(line);
    for (const look of waiting) look();
  });
  const stderr: Buffer[] = [];
  child.stderr.on("data", (chunk: Buffer) => stderr.push(chunk));
  const ended = once(child, "close").then(([code]) => ({
    code: code as number | null,
    stderr: Buffer.concat(stderr).toString(),
  }));

  return {
    pid,
    ended,
    said: (text) => {
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      const look = () => heard.some((line) => line.includes(text)) && resolve();
      waiting.add(look);
      look();
      const gone = ended.then(({ stderr: why }) =>
        reject(new Error(`it ended without saying ${JSON.stringify(text)}: ${why}`)),
      );
      return Promise.race([promise, gone]).finally(() => waiting.delete(look));
    },
    signal: (signal) => process.kill(pid, signal),
    killAll: async () => {
      signalGroup("SIGKILL");
      await ended;
    },
  };
}

export interface CountedOptions {
  readonly input?: string;
  /** Replaced when its input changes, and not changed in place. */
  readonly isReplaced?: boolean;
  /** A command it runs after it has counted itself. */
  readonly after?: string;
  readonly body?: string;
}

/** A resource whose making and unmaking can be counted. */
export function counted(
  name: string,
  effectsFile: string,
  { input = name, after = "", body = "", isReplaced = false }: CountedOptions = {},
): string {
  const note = (word: string) => JSON.stringify(`echo ${word} ${name} >> ${effectsFile}`);
  return `
resource "terraform_data" "${name}" {
  ${isReplaced ? "triggers_replace" : "input"} = ${JSON.stringify(input)}
  ${body}
  provisioner "local-exec" {
    command = ${note("make")}
  }
  ${after === "" ? "" : `provisioner "local-exec" {\n    command = ${JSON.stringify(after)}\n  }`}
  provisioner "local-exec" {
    when    = destroy
    command = ${note("unmake")}
  }
}
`;
}
