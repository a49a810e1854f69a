import { once } from "node:events";
import type { ImageRef } from "../job-runtime.ts";
import {
  createFakeRuntime,
  type FakePlace,
  type FakeProgram,
  type FakeRuntimeOptions,
} from "./fake-runtime.ts";
import { describeJobRuntime } from "./job-runtime-contract.ts";
import type { JobScript } from "./job-script.ts";
import type { JobRuntimeUnderTest } from "./runtime-under-test.ts";

describeJobRuntime("the fake runtime", () => createUnderTest({}), { shell: false });
describeJobRuntime(
  "the fake runtime that rotates output and forgets what was stopped",
  () => createUnderTest({ outputBytesKept: 6, forgetsStopped: true }),
  { shell: false },
);

async function createUnderTest(habits: Partial<FakeRuntimeOptions>): Promise<JobRuntimeUnderTest> {
  const programs = new Map<string, FakeProgram>();
  const place: FakePlace = new Map();
  const open = () =>
    createFakeRuntime({
      ...habits,
      place,
      programOf: ({ image }) => programs.get(image.digest) ?? (async () => 127),
    });
  return { runtime: open(), reopen: open, image };

  async function image(script: JobScript): Promise<ImageRef> {
    const digest = `sha256:${String(programs.size).padStart(64, "0")}`;
    programs.set(digest, acted(script));
    return { registryUrl: "memory://", repository: "tests/script", digest };
  }
}

function acted(script: JobScript): FakeProgram {
  if ("text" in script) throw new Error("the fake runtime runs no shell");
  const { says, ends } = script;
  return async ({ say, terminated }) => {
    for (const line of says) say(`${line}\n`);
    if (typeof ends === "object") return ends.exit;
    if (ends === "on-sigkill") return new Promise(() => undefined);
    if (!terminated.aborted) await once(terminated, "abort");
    throw terminated.reason;
  };
}
