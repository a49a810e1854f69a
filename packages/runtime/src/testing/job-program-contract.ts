// The part of the runtime contract that takes real programs: files, environment, process groups,
// limits, and deaths nobody announced.

import assert from "node:assert/strict";
import { describe, type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { ended, outputText } from "./job-observation.ts";
import { shell } from "./job-script.ts";
import { type CreateRuntime, cleanUp, said, specOf, started } from "./runtime-under-test.ts";

const GRACE_MS = 5_000;

export function describePrograms(name: string, create: CreateRuntime): void {
  describe(`${name} keeps the job runtime contract for real programs`, () => {
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

    test("keeps each of stdout and stderr in the order it was written", async (t) => {
      const { runtime, name } = await started(
        create,
        t,
        shell("echo 1; echo 2 >&2; echo 3; echo 4 >&2"),
      );
      await ended(runtime, name);

      const text = await outputText(runtime, name);
      const order = (stream: string) => text.replace(new RegExp(`[^${stream}]`, "g"), "");
      assert.deepEqual([text.length, order("13"), order("24")], [8, "13", "24"]);
      if (runtime.capabilities.streams === "ordered") assert.equal(text, "1\n2\n3\n4\n");
    });

    test("gives a large output whole", async (t) => {
      const { runtime, name } = await started(
        create,
        t,
        shell("head -c 3000000 /dev/zero | tr '\\0' x"),
      );

      assert.equal((await outputText(runtime, name)).length, 3_000_000);
    });

    test("reports a program that cannot be executed as ended, with a word in its output", async (t) => {
      const { runtime, name } = await started(create, t, {
        interpreter: "/no/such/interpreter",
        text: "",
      });

      const exit = await ended(runtime, name);

      assert.ok(exit.kind === "code" && exit.code > 0, JSON.stringify(exit));
      assert.notEqual(await outputText(runtime, name), "");
    });

    test("gives the job its files, readable by it alone, in a directory of its own", async (t) => {
      const { runtime, name } = await started(
        create,
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
      const { runtime, name } = await started(create, t, shell("env"), {
        environment: { GIVEN: "yes" },
      });
      await ended(runtime, name);

      const lines = (await outputText(runtime, name)).trim().split("\n");
      const names = lines.map((line) => line.slice(0, line.indexOf("=")));

      assert.ok(lines.includes("GIVEN=yes"));
      const own = ["EXCLAVE_JOB_DIR", "EXCLAVE_RUN_DIR", "GIVEN", "HOME", "PATH", "TMPDIR"];
      // Shells set these three for themselves, container engines the other three.
      const others = ["PWD", "SHLVL", "_", "HOSTNAME", "TERM", "container"];
      // Where its API is, a cluster tells every container.
      const isCluster = (name: string) => name.startsWith("KUBERNETES_");
      assert.deepEqual(
        names.filter((name) => ![...own, ...others].includes(name) && !isCluster(name)),
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
        create,
        t,
        shell("(trap '' TERM; sh -c 'while :; do echo tick; sleep 0.05; done') & wait"),
      );

      await runtime.stop(name, 200);

      const atStop = await outputText(runtime, name);
      await sleep(200);
      assert.equal(await outputText(runtime, name), atStop);
    });

    test("ends what a job left running in the background, with the job", async (t) => {
      const { runtime, name } = await started(
        create,
        t,
        shell("(while :; do echo tick; sleep 0.05; done) & exit 4"),
      );

      assert.deepEqual(await ended(runtime, name), { kind: "code", code: 4 });

      const atEnd = await outputText(runtime, name);
      await sleep(200);
      assert.equal(await outputText(runtime, name), atEnd);
    });

    test("lets a job that is asked to stop finish in its own way", async (t) => {
      const { runtime, name } = await said(
        create,
        t,
        shell("trap 'echo saved; exit 9' TERM; echo ready; while :; do sleep 0.05; done"),
      );

      await runtime.stop(name, GRACE_MS);

      const isKnown = runtime.capabilities.stoppedExit === "known";
      const exit = isKnown ? { kind: "code", code: 9 } : { kind: "stopped" };
      assert.deepEqual(await ended(runtime, name), exit);
      assert.match(await outputText(runtime, name), /^ready\n(Terminated\n)?saved\n$/);
    });

    test("reports a program killed from outside by its signal", async (t) => {
      const { runtime, name, killProgram } = await said(create, t, {
        says: ["ready"],
        ends: "on-sigterm",
      });
      assert.ok(killProgram);

      await killProgram(name);

      assert.deepEqual(await ended(runtime, name), { kind: "signal", signal: "SIGKILL" });
    });

    test("reports a job that vanished without a word as lost, and does not start it again", async (t) => {
      const { runtime, name, spec, killEverything } = await said(create, t, {
        says: ["ready"],
        ends: "on-sigterm",
      });
      assert.ok(killEverything);

      await killEverything(name);

      assert.equal((await ended(runtime, name)).kind, "lost");
      await runtime.start(spec);
      assert.equal((await ended(runtime, name)).kind, "lost");
      assert.equal(await outputText(runtime, name), "ready\n");
    });

    test("ends a job that eats more memory than it may, and no other", async (t) => {
      const under = await create(t);
      const neighbour = await specOf(under, { says: ["ready"], ends: "on-sigterm" });
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
      const { runtime, name } = await started(create, t, shell("sleep 0.6; exit 0"), {
        limits: { memoryBytes: 128 * 1024 * 1024 },
      });

      assert.deepEqual(await ended(runtime, name), { kind: "code", code: 0 });
    });

    test("holds a job to the processes it may have, or says in its log that nobody does", async (t) => {
      const { runtime, name, unlimited } = await startedCrowd(create, t);
      if (unlimited) {
        const note = /limits\.processesMax is 4, and the [a-z]+ runtime does not enforce it/;
        assert.match(await outputText(runtime, name), note);
        return;
      }
      const exit = await ended(runtime, name);

      if (runtime.capabilities.limits.processesMax === "enforced") {
        // The kernel refuses the next process; what the job makes of that is its own business.
        assert.ok(exit.kind === "code" && exit.code !== 0, JSON.stringify(exit));
        return;
      }
      assert.ok(exit.kind === "over-limit", JSON.stringify(exit));
      assert.match(exit.because, /[0-9]+ processes and may have 4/);
      assert.match(await outputText(runtime, name), /[0-9]+ processes and may have 4/);
    });
  });
}

async function startedCrowd(create: CreateRuntime, t: TestContext) {
  const under = await create(t);
  const unlimited = under.runtime.capabilities.limits.processesMax === "none";
  const script = shell(unlimited ? "exit 0" : `${"sleep 30 & ".repeat(40)} wait`);
  const limits = { processesMax: 4 };
  return { ...(await started(async () => under, t, script, { limits })), unlimited };
}
