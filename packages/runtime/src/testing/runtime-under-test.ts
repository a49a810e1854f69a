// A runtime as the contract meets it, and jobs to try it with. Every job made here is gone after its
// test, whatever the test found.

import type { TestContext } from "node:test";
import { type JobName, jobName } from "@exclave/core";
import type { ImageRef, JobRuntime, JobSpec } from "../job-runtime.ts";
import { collect } from "./job-observation.ts";
import type { JobScript } from "./job-script.ts";

export interface JobRuntimeUnderTest {
  readonly runtime: JobRuntime;
  /** Puts an image into the store whose entrypoint does what the script says. */
  readonly image: (script: JobScript) => Promise<ImageRef>;
  /** A second runtime over the same place, as a restarted agent makes it. */
  readonly reopen: () => JobRuntime;
  /** Starts the job from another process, which is killed without warning right after. */
  readonly startElsewhere?: (spec: JobSpec) => Promise<void>;
  /** SIGKILL to the job's own program, as an operator might. */
  readonly killProgram?: (name: JobName) => Promise<void>;
  /** SIGKILL to the program and to whatever the runtime set to watch over it. */
  readonly killEverything?: (name: JobName) => Promise<void>;
}

/** What the suite cannot read off a runtime's own capabilities. */
export interface SuiteOptions {
  /** Runs real programs, so that scripts may be shell. */
  readonly shell: boolean;
}

export type CreateRuntime = (t: TestContext) => Promise<JobRuntimeUnderTest>;

export interface JobUnderTest extends JobRuntimeUnderTest {
  readonly spec: JobSpec;
  readonly name: JobName;
}

let jobsMade = 0;

/** A runtime and a job it could start. */
export async function prepared(
  create: CreateRuntime,
  t: TestContext,
  script: JobScript,
  changes: Partial<JobSpec> = {},
): Promise<JobUnderTest> {
  const under = await create(t);
  const spec = { ...(await specOf(under, script)), ...changes };
  cleanUp(t, under.runtime, spec.name);
  return { ...under, spec, name: spec.name };
}

export async function started(
  create: CreateRuntime,
  t: TestContext,
  script: JobScript,
  changes: Partial<JobSpec> = {},
): Promise<JobUnderTest> {
  const made = await prepared(create, t, script, changes);
  await made.runtime.start(made.spec);
  return made;
}

/** Started, and known to be at work because it has said something. */
export async function said(
  create: CreateRuntime,
  t: TestContext,
  script: JobScript,
  changes: Partial<JobSpec> = {},
): Promise<JobUnderTest> {
  const made = await started(create, t, script, changes);
  const reader = new AbortController();
  await collect(made.runtime.output(made.name, 0, reader.signal), () => reader.abort());
  return made;
}

export async function specOf(under: JobRuntimeUnderTest, script: JobScript): Promise<JobSpec> {
  jobsMade += 1;
  return {
    name: jobName(`contract-${jobsMade}`, 1),
    image: await under.image(script),
    files: {},
    environment: {},
    jobClass: "apply",
    limits: {},
    network: "none",
    deadlineMs: 60_000,
  };
}

export function cleanUp(t: TestContext, runtime: JobRuntime, ...names: JobName[]): void {
  t.after(async () => {
    for (const name of names) {
      await runtime.stop(name, 0);
      await runtime.remove(name);
    }
  });
}
