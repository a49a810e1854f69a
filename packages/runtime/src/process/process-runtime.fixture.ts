// The process runtime over a temporary directory, with its records laid open to tests.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import type { JobName } from "@exclave/core";
import type { JobRuntime, JobSpec } from "../job-runtime.ts";
import type { JobRuntimeUnderTest } from "../testing/runtime-under-test.ts";
import { createScriptImages } from "../testing/script-images.ts";
import { type JobDirectory, jobDirectory, readClaim, readProgram } from "./job-directory.ts";
import { createProcessRuntime, type ProcessRuntimeOptions } from "./process-runtime.ts";
import type { ProcessIdentity } from "./process-table.ts";
import { removeTree } from "./tree-seal.ts";

export interface ProcessRuntimeUnderTest extends JobRuntimeUnderTest {
  readonly directory: string;
  readonly place: (name: JobName) => JobDirectory;
  readonly open: (changes?: Partial<ProcessRuntimeOptions>) => JobRuntime;
  readonly recorded: (name: JobName) => { keeper: ProcessIdentity; program: ProcessIdentity };
}

export async function createUnderTest(t: TestContext): Promise<ProcessRuntimeUnderTest> {
  const directory = await mkdtemp(join(tmpdir(), "exclave-runtime-"));
  const images = createScriptImages(join(directory, "store"));
  const place = (name: JobName) => jobDirectory(join(directory, "jobs", name));
  const open = (changes: Partial<ProcessRuntimeOptions> = {}) =>
    createProcessRuntime({ directory, openImage: images, deadlineGraceMs: 300, ...changes });
  t.after(async () => {
    const runtime = open();
    for (const name of await runtime.list()) {
      await runtime.stop(name, 0);
      await runtime.remove(name);
    }
    await removeTree(directory);
  });

  return {
    directory,
    place,
    open,
    recorded,
    runtime: open(),
    reopen: () => open(),
    image: (script) => images.put(script),
    startElsewhere,
    killProgram: async (name) => {
      process.kill(recorded(name).program.pid, "SIGKILL");
    },
    killEverything: async (name) => {
      const { keeper, program } = recorded(name);
      process.kill(keeper.pid, "SIGKILL");
      process.kill(program.pid, "SIGKILL");
    },
  };

  async function startElsewhere(spec: JobSpec): Promise<void> {
    const fixture = fileURLToPath(new URL("./start-elsewhere.fixture.ts", import.meta.url));
    const args = [fixture, directory, join(directory, "store"), JSON.stringify(spec)];
    const starter = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
    const exit = once(starter, "exit");
    await once(starter.stdout, "data");
    starter.kill("SIGKILL");
    await exit;
  }

  function recorded(name: JobName): { keeper: ProcessIdentity; program: ProcessIdentity } {
    const job = place(name);
    const keeper = readClaim(job)?.keeper;
    const program = readProgram(job);
    assert.ok(keeper && program);
    return { keeper, program };
  }
}
