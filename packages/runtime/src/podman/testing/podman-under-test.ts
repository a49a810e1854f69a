// The Podman runtime over an engine of the tests' own, with an owner of its own for each test.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import type { JobName } from "@exclave/core";
import { clearEngine, createEngineClient, imageRepository } from "@exclave/machine/engine";
import type { JobRuntime, JobSpec } from "../../job-runtime.ts";
import type { JobRuntimeUnderTest } from "../../testing/runtime-under-test.ts";
import { createEngineImages } from "../engine-images.ts";
import { createPodmanRuntime, type PodmanRuntimeOptions } from "../podman-runtime.ts";
import { createContainerImages } from "./container-images.ts";
import type { ScratchEngine } from "./scratch-engine.ts";

export interface PodmanUnderTest extends JobRuntimeUnderTest {
  readonly owner: string;
  readonly open: (changes?: Partial<PodmanRuntimeOptions>) => JobRuntime;
  readonly imageReads: () => number;
  /** What the engine says of the job's container. */
  readonly container: (name: JobName) => Record<string, unknown>;
}

let made = 0;
const images = createContainerImages();

export function createUnderTest(engine: ScratchEngine, t: TestContext): PodmanUnderTest {
  const owner = `exclave-test-${process.pid}-${++made}`;
  const directory = join(engine.directory, owner);
  const options = { socket: engine.socket, owner, directory, deadlineGraceMs: 300 };
  const open = (changes: Partial<PodmanRuntimeOptions> = {}) =>
    createPodmanRuntime({ ...options, images, ...changes });
  t.after(() => clearEngine({ socket: engine.socket, owner }));

  return {
    owner,
    open,
    runtime: open(),
    reopen: () => open(),
    image: async (script) => images.put(script),
    imageReads: images.reads,
    container,
    startElsewhere,
    async killProgram(name) {
      const [program] = childrenOf(initPid(name));
      assert.ok(program !== undefined);
      process.kill(program, "SIGKILL");
    },
    async killEverything(name) {
      const init = initPid(name);
      process.kill(parentOf(init), "SIGKILL");
      process.kill(init, "SIGKILL");
    },
  };

  function container(name: JobName): Record<string, unknown> {
    return JSON.parse(engine.podman("container", "inspect", `${owner}-${name}`))[0];
  }

  function initPid(name: JobName): number {
    const { State } = container(name) as { State: { Pid: number } };
    assert.ok(State.Pid > 0);
    return State.Pid;
  }

  async function startElsewhere(spec: JobSpec): Promise<void> {
    const client = createEngineClient(engine.socket);
    const repository = imageRepository(owner);
    const store = createEngineImages({ engine: client, archives: images, repository });
    const id = await store.provide(spec.image);
    const fixture = fileURLToPath(new URL("./start-elsewhere.fixture.ts", import.meta.url));
    const args = [fixture, JSON.stringify(options), id, JSON.stringify(spec)];
    const starter = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
    const exit = once(starter, "exit");
    await Promise.race([once(starter.stdout, "data"), exit]);
    assert.equal(starter.exitCode, null, "it ended before it started the job");
    starter.kill("SIGKILL");
    await exit;
  }
}

function parentOf(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]);
}

function childrenOf(pid: number): number[] {
  const pids = readdirSync("/proc").filter((name) => /^[0-9]+$/.test(name));
  return pids.map(Number).filter((other) => {
    try {
      return parentOf(other) === pid;
    } catch {
      return false;
    }
  });
}
