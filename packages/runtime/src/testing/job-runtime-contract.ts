// What every runtime promises, as tests. A runtime is done when it passes this suite; a promise
// that is not in here is not one the agent may lean on.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { jobName } from "@exclave/core";
import { type JobExit, type JobRuntime, oldestOutput } from "../job-runtime.ts";
import { collect, ended, outputText } from "./job-observation.ts";
import { describePrograms } from "./job-program-contract.ts";
import {
  type CreateRuntime,
  cleanUp,
  prepared,
  type SuiteOptions,
  said,
  specOf,
  started,
} from "./runtime-under-test.ts";

const GRACE_MS = 5_000;

export function describeJobRuntime(
  name: string,
  create: CreateRuntime,
  { shell }: SuiteOptions,
): void {
  describe(`${name} keeps the job runtime contract`, () => {
    test("knows nothing of a job that was never started", async (t) => {
      const { runtime } = await create(t);
      const name = jobName("nobody", 1);

      assert.deepEqual(await runtime.inspect(name), { kind: "absent" });
      assert.deepEqual(await runtime.list(), []);
      await runtime.stop(name, 0);
      await runtime.remove(name);
      await assert.rejects(outputText(runtime, name), { code: "not_found" });
    });

    test("reports the exit code of a job that ends by itself", async (t) => {
      const { runtime, name } = await started(create, t, { says: ["done"], ends: { exit: 3 } });

      assert.deepEqual(await ended(runtime, name), { kind: "code", code: 3 });
    });

    test("gives all output of an ended job, from any byte on", async (t) => {
      const { runtime, name } = await started(create, t, {
        says: ["one", "two"],
        ends: { exit: 0 },
      });
      await ended(runtime, name);

      assert.equal(await outputText(runtime, name, 4), "two\n");
      assert.equal(await outputText(runtime, name, 8), "");
      const whole = await outputText(runtime, name).catch((reason: unknown) => reason);
      const oldest = oldestOutput(whole);
      if (oldest !== undefined && runtime.capabilities.output === "rotated") {
        assert.equal(await outputText(runtime, name, oldest), "one\ntwo\n".slice(oldest));
      } else {
        assert.equal(whole, "one\ntwo\n");
      }
    });

    test("gives output while the job runs, and stops giving when the reader leaves", async (t) => {
      const { runtime, name } = await started(create, t, {
        says: ["one", "two"],
        ends: "on-sigterm",
      });
      const reader = new AbortController();

      const text = await collect(runtime.output(name, 4, reader.signal), (soFar) => {
        if (soFar.endsWith("two\n")) reader.abort();
      });

      assert.equal(text, "two\n");
      assert.deepEqual(await runtime.inspect(name), { kind: "running" });
    });

    test("follows a job to its end", async (t) => {
      const { runtime, name } = await said(create, t, { says: ["ready"], ends: "on-sigterm" });
      const following = outputText(runtime, name);

      await runtime.stop(name, GRACE_MS);

      assert.equal(await following, "ready\n");
    });

    test("starts a name once, however often and however late it is asked", async (t) => {
      const { runtime, spec, reopen, name } = await prepared(create, t, {
        says: ["ran"],
        ends: { exit: 0 },
      });

      await Promise.all([runtime.start(spec), runtime.start(spec), reopen().start(spec)]);
      await ended(runtime, name);
      await runtime.start(spec);

      assert.deepEqual(await ended(runtime, name), { kind: "code", code: 0 });
      assert.equal(await outputText(runtime, name), "ran\n");
      assert.deepEqual(await runtime.list(), [name]);
    });

    test("runs jobs side by side and lists them", async (t) => {
      const under = await create(t);
      const hang = await specOf(under, { says: ["a"], ends: "on-sigterm" });
      const quick = await specOf(under, { says: ["b"], ends: { exit: 0 } });
      cleanUp(t, under.runtime, hang.name, quick.name);

      await under.runtime.start(hang);
      await under.runtime.start(quick);

      assert.deepEqual(await ended(under.runtime, quick.name), { kind: "code", code: 0 });
      assert.deepEqual(await under.runtime.inspect(hang.name), { kind: "running" });
      assert.deepEqual(await under.runtime.list(), [hang.name, quick.name].sort());
    });

    test("stops a job with SIGTERM", async (t) => {
      const { runtime, name } = await said(create, t, { says: ["ready"], ends: "on-sigterm" });

      await runtime.stop(name, GRACE_MS);

      const exit = stoppedBy(runtime, "SIGTERM");
      assert.deepEqual(await runtime.inspect(name), { kind: "exited", exit });
    });

    test("kills a job that ignores SIGTERM once its grace is over", async (t) => {
      const { runtime, name } = await said(create, t, { says: ["ready"], ends: "on-sigkill" });

      await runtime.stop(name, 200);

      const exit = stoppedBy(runtime, "SIGKILL");
      assert.deepEqual(await runtime.inspect(name), { kind: "exited", exit });
    });

    test("ends a job at its deadline, also one that ignores SIGTERM", async (t) => {
      const { runtime, name } = await started(
        create,
        t,
        { says: ["ready"], ends: "on-sigkill" },
        { deadlineMs: 300 },
      );

      assert.deepEqual(await ended(runtime, name), { kind: "deadline" });
    });

    test("forgets a removed job, running or not", async (t) => {
      const under = await create(t);
      const hang = await specOf(under, { says: ["a"], ends: "on-sigterm" });
      const quick = await specOf(under, { says: ["b"], ends: { exit: 0 } });
      await under.runtime.start(hang);
      await under.runtime.start(quick);
      await ended(under.runtime, quick.name);

      await under.runtime.remove(hang.name);
      await under.runtime.remove(quick.name);

      assert.deepEqual(await under.runtime.list(), []);
      assert.deepEqual(await under.runtime.inspect(hang.name), { kind: "absent" });
      assert.deepEqual(await under.runtime.inspect(quick.name), { kind: "absent" });
    });

    test("a second runtime over the same place finds the job, its output and its end", async (t) => {
      const { runtime, name, reopen } = await said(create, t, {
        says: ["ready"],
        ends: "on-sigterm",
      });
      const second = reopen();

      assert.deepEqual(await second.inspect(name), { kind: "running" });
      assert.deepEqual(await second.list(), [name]);
      await second.stop(name, GRACE_MS);

      assert.deepEqual(await ended(runtime, name), stoppedBy(runtime, "SIGTERM"));
      assert.equal(await outputText(second, name), "ready\n");
    });
  });

  if (shell) describePrograms(name, create);
}

/** What a runtime that declares as much knows of a job that was stopped. */
function stoppedBy({ capabilities }: JobRuntime, signal: string): JobExit {
  return capabilities.stoppedExit === "known" ? { kind: "signal", signal } : { kind: "stopped" };
}
