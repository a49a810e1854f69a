// What every runtime promises, as tests. A runtime is done when it passes this suite; a promise
// that is not in here is not one the agent may lean on.

import assert from "node:assert/strict";
import { describe, type TestContext, test } from "node:test";
import { type JobName, jobName } from "@exclave/core";
import type { ImageRef, JobRuntime, JobSpec } from "../job-runtime.ts";
import { collect, ended, outputText } from "./job-observation.ts";
import { type JobScript, shell } from "./job-script.ts";

export interface JobRuntimeUnderTest {
  readonly runtime: JobRuntime;
  /** Puts an image into the store whose entrypoint does what the script says. */
  image(script: JobScript): Promise<ImageRef>;
  /** A second runtime over the same place, as a restarted agent makes it. */
  reopen(): JobRuntime;
  /** Starts the job from another process, which is killed without warning right after. */
  startElsewhere?(spec: JobSpec): Promise<void>;
  /** SIGKILL to the job's own program, as an operator might. */
  killProgram?(name: JobName): Promise<void>;
  /** SIGKILL to the program and to whatever the runtime set to watch over it. */
  killEverything?(name: JobName): Promise<void>;
}

/** What not every runtime can offer. What is left out here is not tested. */
export interface Capabilities {
  /** Runs real programs, so that scripts may be shell. */
  readonly shell: boolean;
  readonly memoryLimit: boolean;
  readonly processLimit: boolean;
}

const GRACE_MS = 5_000;

export function describeJobRuntime(
  name: string,
  create: (t: TestContext) => Promise<JobRuntimeUnderTest>,
  capabilities: Capabilities,
): void {
  const { shell: runsShell, memoryLimit, processLimit } = capabilities;
  let jobsMade = 0;

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
      const { runtime, name } = await started(t, { says: ["done"], then: { exit: 3 } });

      assert.deepEqual(await ended(runtime, name), { kind: "code", code: 3 });
    });

    test("gives all output of an ended job, from any byte on", async (t) => {
      const { runtime, name } = await started(t, { says: ["one", "two"], then: { exit: 0 } });
      await ended(runtime, name);

      assert.equal(await outputText(runtime, name), "one\ntwo\n");
      assert.equal(await outputText(runtime, name, 4), "two\n");
      assert.equal(await outputText(runtime, name, 8), "");
    });

    test("gives output while the job runs, and stops giving when the reader leaves", async (t) => {
      const { runtime, name } = await started(t, { says: ["one", "two"], then: "hang" });
      const reader = new AbortController();

      const text = await collect(runtime.output(name, 4, reader.signal), (soFar) => {
        if (soFar.endsWith("two\n")) reader.abort();
      });

      assert.equal(text, "two\n");
      assert.deepEqual(await runtime.inspect(name), { kind: "running" });
    });

    test("follows a job to its end", async (t) => {
      const { runtime, name } = await said(t, { says: ["ready"], then: "hang" });
      const following = outputText(runtime, name);

      await runtime.stop(name, GRACE_MS);

      assert.equal(await following, "ready\n");
    });

    test("starts a name once, however often and however late it is asked", async (t) => {
      const { runtime, spec, reopen, name } = await prepared(t, {
        says: ["ran"],
        then: { exit: 0 },
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
      const hang = await specOf(under, { says: ["a"], then: "hang" });
      const quick = await specOf(under, { says: ["b"], then: { exit: 0 } });
      cleanUp(t, under.runtime, hang.name, quick.name);

      await under.runtime.start(hang);
      await under.runtime.start(quick);

      assert.deepEqual(await ended(under.runtime, quick.name), { kind: "code", code: 0 });
      assert.deepEqual(await under.runtime.inspect(hang.name), { kind: "running" });
      assert.deepEqual(await under.runtime.list(), [hang.name, quick.name].sort());
    });

    test("stops a job with SIGTERM", async (t) => {
      const { runtime, name } = await said(t, { says: ["ready"], then: "hang" });

      await runtime.stop(name, GRACE_MS);

      assert.deepEqual(await runtime.inspect(name), {
        kind: "exited",
        exit: { kind: "signal", signal: "SIGTERM" },
      });
    });

    test("kills a job that ignores SIGTERM once its grace is over", async (t) => {
      const { runtime, name } = await said(t, { says: ["ready"], then: "hang-on-sigterm" });

      await runtime.stop(name, 200);

      assert.deepEqual(await runtime.inspect(name), {
        kind: "exited",
        exit: { kind: "signal", signal: "SIGKILL" },
      });
    });

    test("ends a job at its deadline, also one that ignores SIGTERM", async (t) => {
      const { runtime, name } = await started(
        t,
        { says: ["ready"], then: "hang-on-sigterm" },
        { deadlineMs: 300 },
      );

      assert.deepEqual(await ended(runtime, name), { kind: "deadline" });
    });

    test("forgets a removed job, running or not", async (t) => {
      const under = await create(t);
      const hang = await specOf(under, { says: ["a"], then: "hang" });
      const quick = await specOf(under, { says: ["b"], then: { exit: 0 } });
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
      const { runtime, name, reopen } = await said(t, { says: ["ready"], then: "hang" });
      const second = reopen();

      assert.deepEqual(await second.inspect(name), { kind: "running" });
      assert.deepEqual(await second.list(), [name]);
      await second.stop(name, GRACE_MS);

      assert.deepEqual(await ended(runtime, name), { kind: "signal", signal: "SIGTERM" });
      assert.equal(await outputText(second, name), "ready\n");
    });

    if (!runsShell) return;

    test("a job goes on after the process that started it was killed, and is found again", async (t) => {
      const under = await create(t);
      assert.ok(under.startElsewhere);
      const script = shell(`echo before; while [ ! -e "$EXCLAVE_STATE_DIR/go" ]; do sleep 0.05; done
        echo after; exit 7`);
      const spec = { ...(await specOf(under, script)), stateVolume: "shared" };
      const opener = await specOf(under, shell('touch "$EXCLAVE_STATE_DIR/go"'));
      cleanUp(t, under.runtime, spec.name, opener.name);

      await under.startElsewhere(spec);
      assert.deepEqual(await under.runtime.inspect(spec.name), { kind: "running" });
      await under.runtime.start(spec);
      await under.runtime.start({ ...opener, stateVolume: "shared" });

      assert.deepEqual(await ended(under.runtime, spec.name), { kind: "code", code: 7 });
      assert.equal(await outputText(under.runtime, spec.name), "before\nafter\n");
    });

    test("keeps stdout and stderr in the order they were written", async (t) => {
      const { runtime, name } = await started(t, shell("echo 1; echo 2 >&2; echo 3; echo 4 >&2"));
      await ended(runtime, name);

      assert.equal(await outputText(runtime, name), "1\n2\n3\n4\n");
    });

    test("gives a large output whole", async (t) => {
      const { runtime, name } = await started(t, shell("head -c 3000000 /dev/zero | tr '\\0' x"));

      assert.equal((await outputText(runtime, name)).length, 3_000_000);
    });

    test("reports a program that cannot be executed as ended, with a word in its output", async (t) => {
      const { runtime, name } = await started(t, { interpreter: "/no/such/interpreter", text: "" });

      const exit = await ended(runtime, name);

      assert.ok(exit.kind === "code" && exit.code >= 126, JSON.stringify(exit));
      assert.notEqual(await outputText(runtime, name), "");
    });

    test("gives the job its files, readable by it alone, in a directory of its own", async (t) => {
      const { runtime, name } = await started(
        t,
        shell(`cd "$EXCLAVE_JOB_DIR" && cat job.json && stat -c %a job.json . && pwd -P >&2
          [ "$(pwd -P)" = "$(cd "$HOME" && pwd -P)" ] && [ -w "$TMPDIR" ]`),
        { files: { "job.json": '{"hello":1}\n' } },
      );

      assert.deepEqual(await ended(runtime, name), { kind: "code", code: 0 });
      assert.match(await outputText(runtime, name), /^\{"hello":1\}\n600\n700\n/);
    });

    test("shows the job what it was given and nothing of the agent's environment", async (t) => {
      process.env.EXCLAVE_TEST_LEAK = "must-not-leak";
      t.after(() => delete process.env.EXCLAVE_TEST_LEAK);
      const { runtime, name } = await started(t, shell("env"), { environment: { GIVEN: "yes" } });
      await ended(runtime, name);

      const lines = (await outputText(runtime, name)).trim().split("\n");
      const names = lines.map((line) => line.slice(0, line.indexOf("=")));

      assert.ok(lines.includes("GIVEN=yes"));
      const own = ["EXCLAVE_JOB_DIR", "EXCLAVE_RUN_DIR", "GIVEN", "HOME", "PATH", "TMPDIR"];
      // Shells set these three for themselves.
      const unknown = names.filter((name) => !own.includes(name));
      assert.deepEqual(
        unknown.filter((name) => !["PWD", "SHLVL", "_"].includes(name)),
        [],
      );
    });

    test("keeps a state volume from one job to the next, and only for its name", async (t) => {
      const under = await create(t);
      const write = await specOf(under, shell('echo kept > "$EXCLAVE_STATE_DIR/file"'));
      const read = await specOf(under, shell('cat "$EXCLAVE_STATE_DIR/file"'));
      const other = await specOf(under, shell('cat "$EXCLAVE_STATE_DIR/file"'));
      cleanUp(t, under.runtime, write.name, read.name, other.name);

      await under.runtime.start({ ...write, stateVolume: "database" });
      await ended(under.runtime, write.name);
      await under.runtime.remove(write.name);
      await under.runtime.start({ ...read, stateVolume: "database" });
      await under.runtime.start({ ...other, stateVolume: "api" });

      assert.deepEqual(await ended(under.runtime, read.name), { kind: "code", code: 0 });
      assert.equal(await outputText(under.runtime, read.name), "kept\n");
      assert.deepEqual(await ended(under.runtime, other.name), { kind: "code", code: 1 });
    });

    test("stops what a job started along with the job", async (t) => {
      const { runtime, name } = await said(
        t,
        shell("(trap '' TERM; sh -c 'while :; do echo tick; sleep 0.05; done') & wait"),
      );

      await runtime.stop(name, 200);

      const atStop = await outputText(runtime, name);
      await new Promise((resolve) => setTimeout(resolve, 200));
      assert.equal(await outputText(runtime, name), atStop);
    });

    test("ends what a job left running in the background, with the job", async (t) => {
      const { runtime, name } = await started(
        t,
        shell("(while :; do echo tick; sleep 0.05; done) & exit 4"),
      );

      assert.deepEqual(await ended(runtime, name), { kind: "code", code: 4 });

      const atEnd = await outputText(runtime, name);
      await new Promise((resolve) => setTimeout(resolve, 200));
      assert.equal(await outputText(runtime, name), atEnd);
    });

    test("lets a job that is asked to stop finish in its own way", async (t) => {
      const { runtime, name } = await said(
        t,
        shell("trap 'echo saved; exit 9' TERM; echo ready; while :; do sleep 0.05; done"),
      );

      await runtime.stop(name, GRACE_MS);

      assert.deepEqual(await ended(runtime, name), { kind: "code", code: 9 });
      assert.match(await outputText(runtime, name), /^ready\n(Terminated\n)?saved\n$/);
    });

    test("reports a program killed from outside by its signal", async (t) => {
      const { runtime, name, killProgram } = await said(t, { says: ["ready"], then: "hang" });
      assert.ok(killProgram);

      await killProgram(name);

      assert.deepEqual(await ended(runtime, name), { kind: "signal", signal: "SIGKILL" });
    });

    test("reports a job that vanished without a word as lost, and does not start it again", async (t) => {
      const { runtime, name, spec, killEverything } = await said(t, {
        says: ["ready"],
        then: "hang",
      });
      assert.ok(killEverything);

      await killEverything(name);

      assert.equal((await ended(runtime, name)).kind, "lost");
      await runtime.start(spec);
      assert.equal((await ended(runtime, name)).kind, "lost");
      assert.equal(await outputText(runtime, name), "ready\n");
    });

    if (memoryLimit) {
      test("ends a job that eats more memory than it may, and no other", async (t) => {
        const under = await create(t);
        const neighbour = await specOf(under, { says: ["ready"], then: "hang" });
        // It grows by holding on to text: no tool beyond the shell is needed.
        const eat = shell('x=0123456789; while :; do x="$x$x"; done');
        const greedy = {
          ...(await specOf(under, eat)),
          limits: { memoryBytes: 128 * 1024 * 1024 },
        };
        cleanUp(t, under.runtime, neighbour.name, greedy.name);

        await under.runtime.start(neighbour);
        await under.runtime.start(greedy);

        assert.deepEqual(await ended(under.runtime, greedy.name), { kind: "out-of-memory" });
        assert.deepEqual(await under.runtime.inspect(neighbour.name), { kind: "running" });
      });

      test("lets a job within its memory limit be", async (t) => {
        const { runtime, name } = await started(t, shell("sleep 0.6; exit 0"), {
          limits: { memoryBytes: 128 * 1024 * 1024 },
        });

        assert.deepEqual(await ended(runtime, name), { kind: "code", code: 0 });
      });
    }

    if (processLimit) {
      test("ends a job that starts more processes than it may", async (t) => {
        const { runtime, name } = await started(
          t,
          shell("for i in 1 2 3 4 5 6 7 8; do sleep 30 & done; wait"),
          { limits: { processesMax: 4 } },
        );

        const exit = await ended(runtime, name);

        assert.deepEqual(exit, { kind: "signal", signal: "SIGKILL" });
        assert.match(await outputText(runtime, name), /[5-9] processes and may have 4/);
      });
    }
  });

  async function prepared(t: TestContext, script: JobScript, changes: Partial<JobSpec> = {}) {
    const under = await create(t);
    const spec = { ...(await specOf(under, script)), ...changes };
    cleanUp(t, under.runtime, spec.name);
    return { ...under, spec, name: spec.name };
  }

  async function started(t: TestContext, script: JobScript, changes: Partial<JobSpec> = {}) {
    const made = await prepared(t, script, changes);
    await made.runtime.start(made.spec);
    return made;
  }

  /** Started, and known to be at work because it has said something. */
  async function said(t: TestContext, script: JobScript, changes: Partial<JobSpec> = {}) {
    const made = await started(t, script, changes);
    const reader = new AbortController();
    await collect(made.runtime.output(made.name, 0, reader.signal), () => reader.abort());
    return made;
  }

  async function specOf(under: JobRuntimeUnderTest, script: JobScript): Promise<JobSpec> {
    jobsMade += 1;
    return {
      name: jobName(`contract-${jobsMade}`, 1),
      image: await under.image(script),
      files: {},
      environment: {},
      limits: {},
      deadlineMs: 60_000,
    };
  }
}

function cleanUp(t: TestContext, runtime: JobRuntime, ...names: JobName[]): void {
  t.after(async () => {
    for (const name of names) {
      await runtime.stop(name, 0);
      await runtime.remove(name);
    }
  });
}
