// The program inside a job's container. It reads job.json, does what it says and reports on stdout;
// it has no other way to speak to anyone.

import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { Failure, JOB_ENVIRONMENT, JobDocument, type ResultLine } from "@exclave/core";
import { fetchFiles } from "./fetch-files.ts";
import { createLineWriter } from "./line-writer.ts";
import { runJob } from "./run-job.ts";

const controller = new AbortController();
for (const signal of ["SIGTERM", "SIGINT"] as const) {
  process.on(signal, () => controller.abort(new Failure("cancelled", `the job got ${signal}`)));
}

const out = (line: string) => process.stdout.write(line);
const result = await main();
process.exitCode = result.ok ? 0 : 1;
// Connections kept for reuse would hold the process; everything is written by the time this runs.
process.stdout.write("", () => process.exit());

async function main(): Promise<ResultLine> {
  let write = createLineWriter({ secrets: [], out });
  let result: ResultLine;
  try {
    const { jobDirectory, document } = await readJob();
    const { secrets, limits } = document;
    write = createLineWriter({ secrets, logBytesMax: limits?.logBytesMax, out });
    result = await runJob({
      document,
      jobDirectory,
      stateDirectory: process.env[JOB_ENVIRONMENT.stateDirectory] ?? join(jobDirectory, "state"),
      runDirectory: process.env[JOB_ENVIRONMENT.runDirectory] ?? join(jobDirectory, "run"),
      engineSocket: process.env[JOB_ENVIRONMENT.engineSocket],
      registrySocket: process.env[JOB_ENVIRONMENT.registrySocket],
      pluginDirectory: dirname(fileURLToPath(import.meta.url)),
      environment: programEnvironment(jobDirectory),
      signal: controller.signal,
      forwardStop: true,
      write,
    });
  } catch (reason) {
    const message = reason instanceof Error ? reason.message : String(reason);
    const code = reason instanceof Failure ? reason.code : "bug";
    result = { type: "result", ok: false, failure: { code, message } };
  }
  write(result);
  return result;
}

async function readJob(): Promise<{ jobDirectory: string; document: JobDocument }> {
  const jobDirectory = process.env[JOB_ENVIRONMENT.jobDirectory];
  if (!jobDirectory) {
    const message = `${JOB_ENVIRONMENT.jobDirectory} is not set; the runner works inside a job only`;
    throw new Failure("invalid", message);
  }
  await fetchFiles({ environment: process.env, jobDirectory, signal: controller.signal });
  try {
    const text = await readFile(join(jobDirectory, "job.json"), "utf8");
    return { jobDirectory, document: JobDocument.parse(JSON.parse(text)) };
  } catch (cause) {
    // The text may hold secrets, so what the parser says of it stays unsaid.
    throw new Failure("invalid", "job.json is missing or not a job document", { cause });
  }
}

function programEnvironment(jobDirectory: string): Record<string, string> {
  const { PATH = "/usr/local/bin:/usr/bin:/bin", TMPDIR, HOME, LANG, TZ } = process.env;
  const optional = { LANG, TZ };
  return {
    PATH,
    HOME: HOME ?? jobDirectory,
    TMPDIR: TMPDIR ?? "/tmp",
    ...Object.fromEntries(Object.entries(optional).filter(([, value]) => value !== undefined)),
  };
}
