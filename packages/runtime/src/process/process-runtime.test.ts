import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import type { JobName } from "@exclave/core";
import type { JobSpec } from "../job-runtime.ts";
import { describeJobRuntime } from "../testing/job-runtime-contract.ts";
import type { JobRuntimeUnderTest } from "../testing/runtime-under-test.ts";
import { createScriptImages } from "../testing/script-images.ts";
import { jobDirectory, readClaim, readProgram } from "./job-directory.ts";
import { createProcessRuntime } from "./process-runtime.ts";
import type { ProcessIdentity } from "./process-table.ts";

const capabilities = { shell: true, memoryLimit: true, processLimit: true };

describeJobRuntime("the process runtime", createUnderTest, capabilities);

async function createUnderTest(t: TestContext): Promise<JobRuntimeUnderTest> {
  const directory = await mkdtemp(join(tmpdir(), "exclave-runtime-"));
  t.after(() => rm(directory, { recursive: true, force: true }));
  const images = createScriptImages(join(directory, "store"));
  const open = () => createProcessRuntime({ directory, openImage: images, deadlineGraceMs: 300 });

  return {
    runtime: open(),
    reopen: open,
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
    const job = jobDirectory(join(directory, "jobs", name));
    const keeper = readClaim(job)?.keeper;
    const program = readProgram(job);
    assert.ok(keeper && program);
    return { keeper, program };
  }
}
