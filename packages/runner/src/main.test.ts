import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import type { JobDocument, JobLine } from "@exclave/core";
import { build } from "esbuild";
import { jobDocument, SAMPLE_PLUGIN } from "./testing/job-fixture.ts";

let directory = "";
let jobs = 0;

// As in an image: the runner is one file, and its plugin lies beside it.
before(async () => {
  directory = await mkdtemp(join(tmpdir(), "exclave-runner-main-"));
  await build({
    entryPoints: [fileURLToPath(new URL("./main.ts", import.meta.url))],
    outfile: join(directory, "runner.mjs"),
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node24",
    logLevel: "error",
    banner: {
      js: 'import { createRequire as r } from "node:module"; const require = r(import.meta.url);',
    },
  });
  await writeFile(join(directory, "plugin.mjs"), SAMPLE_PLUGIN);
});
after(() => rm(directory, { recursive: true, force: true }));

async function jobDirectory(document: Partial<JobDocument> | undefined): Promise<string> {
  const path = join(directory, `job-${++jobs}`);
  await mkdir(path);
  if (document) await writeFile(join(path, "job.json"), JSON.stringify(jobDocument(document)));
  return path;
}

interface Ended {
  readonly code: number | null;
  readonly lines: readonly JobLine[];
}

async function run(
  document: Partial<JobDocument> | undefined,
  { detached = false, onLine = (_line: JobLine, _pid: number): void => undefined } = {},
): Promise<Ended> {
  const child = spawn(process.execPath, [join(directory, "runner.mjs")], {
    env: { EXCLAVE_JOB_DIR: await jobDirectory(document), PATH: process.env.PATH },
    stdio: ["ignore", "pipe", "inherit"],
    detached,
  });
  const exited = once(child, "exit");
  const lines: JobLine[] = [];
  for await (const text of createInterface({ input: child.stdout })) {
    const line: JobLine = JSON.parse(text);
    lines.push(line);
    onLine(line, child.pid ?? 0);
  }
  const [code] = await exited;
  return { code, lines };
}

const results = ({ lines }: Ended) => lines.filter((line) => line.type === "result");

test("a job that goes well ends with one result and exit code 0", async () => {
  const ended = await run({ operation: "apply" });

  assert.equal(ended.code, 0);
  assert.deepEqual(results(ended), [{ type: "result", ok: true }]);
  assert.equal(ended.lines.at(-1)?.type, "result");
});

test("a job that fails ends with one result and exit code 1, the code kept across bundles", async () => {
  const ended = await run({ operation: "apply", config: { mode: "fails" } });

  assert.equal(ended.code, 1);
  const failure = { code: "conflict", message: "somebody else is at work" };
  assert.deepEqual(results(ended), [{ type: "result", ok: false, failure }]);
});

test("a job without a document says so, and nothing of a broken one", async () => {
  const ended = await run(undefined);

  assert.equal(ended.code, 1);
  const failure = { code: "invalid", message: "job.json is missing or not a job document" };
  assert.deepEqual(results(ended), [{ type: "result", ok: false, failure }]);
});

const WAITS: Partial<JobDocument> = { operation: "apply", config: { mode: "waits" } };
const isReady = (line: JobLine) => line.type === "log" && line.message === "ready";
const stopsSeen = ({ lines }: Ended) =>
  lines.flatMap((line) =>
    line.type === "log" && line.message.startsWith("told to stop") ? [line.message] : [],
  );

test("a stop sent to the runner is passed on once, and the program's end is waited for", async () => {
  const ended = await run(WAITS, {
    detached: true,
    onLine: (line, pid) => isReady(line) && process.kill(pid, "SIGTERM"),
  });

  assert.equal(ended.code, 1);
  assert.deepEqual(stopsSeen(ended), ["told to stop: 1"]);
  const failure = { code: "cancelled", message: "stopped while sh was at work" };
  assert.deepEqual(results(ended), [{ type: "result", ok: false, failure }]);
});
