import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { chmod, mkdir, readdir, readFile, rm, rmdir, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, type TestContext, test } from "node:test";
import { fileURLToPath } from "node:url";
import { DEFAULT_LIMITS, Failure } from "@exclave/core";
import type { JobSpec } from "../job-runtime.ts";
import { collect, ended, outputText, until } from "../testing/job-observation.ts";
import { describeJobRuntime } from "../testing/job-runtime-contract.ts";
import { type JobScript, shell } from "../testing/job-script.ts";
import { cleanUp, specOf } from "../testing/runtime-under-test.ts";
import { createScriptImages } from "../testing/script-images.ts";
import { writeRecord } from "./job-directory.ts";
import { createUnderTest } from "./process-runtime.fixture.ts";
import { isAlive, processTable } from "./process-table.ts";

const isLinux = process.platform === "linux";
describeJobRuntime("the process runtime", createUnderTest, { shell: true });

describe("the process runtime after a crash", () => {
  test("starts a job whose keeper never came to take it", async (t) => {
    const { under, spec } = await prepared(t, shell('echo ran >> "$EXCLAVE_STATE_DIR/runs"'));
    const broken = under.open({ keeperPath: join(under.directory, "no-such-keeper.ts") });
    const withState = { ...spec, stateVolume: "runs" };

    await assert.rejects(broken.start(withState), { code: "unavailable" });
    assert.equal((await under.runtime.inspect(spec.name)).kind, "waiting");
    await under.runtime.start(withState);

    assert.deepEqual(await ended(under.runtime, spec.name), { kind: "code", code: 0 });
    const runs = await readFile(join(under.directory, "state/runs/runs"), "utf8");
    assert.equal(runs, "ran\n");
  });

  test("never starts a job that was stopped before a keeper took it", async (t) => {
    const { under, spec } = await prepared(t, shell("echo ran"));
    const broken = under.open({ nodePath: "/no/such/node" });
    await assert.rejects(broken.start(spec), { code: "unavailable" });

    await under.runtime.stop(spec.name, 0);
    await under.runtime.start(spec);

    const exit = { kind: "signal", signal: "SIGTERM" };
    assert.deepEqual(await under.runtime.inspect(spec.name), { kind: "exited", exit });
    assert.equal(await outputText(under.runtime, spec.name), "");
  });

  test("runs nothing of a program whose pid cannot be written down", async (t) => {
    const { under, spec } = await prepared(t, shell("echo ran"));
    const broken = under.open({ nodePath: "/no/such/node" });
    await assert.rejects(broken.start(spec), { code: "unavailable" });
    await mkdir(under.place(spec.name).program);

    await under.runtime.start(spec);
    const exit = await ended(under.runtime, spec.name);
    await rmdir(under.place(spec.name).program);

    assert.ok(exit.kind === "lost");
    assert.match(exit.because, /^its program could not be started: /);
    assert.equal(await outputText(under.runtime, spec.name), "");
  });

  test("a second keeper for the same job leaves at once and runs nothing", async (t) => {
    const { under, spec } = await started(t, { says: ["ran"], ends: "on-sigterm" });
    const keeper = fileURLToPath(new URL("./keeper.ts", import.meta.url));

    const second = spawn(process.execPath, [keeper, under.place(spec.name).path]);
    const [code] = await once(second, "exit");
    await under.runtime.stop(spec.name, 5_000);

    assert.equal(code, 0);
    assert.equal(await outputText(under.runtime, spec.name), "ran\n");
  });

  test("calls a job running while its program lives, also without its keeper, and stops it", async (t) => {
    const { under, spec } = await started(t, { says: ["ready"], ends: "on-sigterm" });
    const { keeper } = under.recorded(spec.name);

    process.kill(keeper.pid, "SIGKILL");
    await until(async () => !isAlive(processTable, keeper));

    assert.deepEqual(await under.runtime.inspect(spec.name), { kind: "running" });
    await under.runtime.stop(spec.name, 5_000);
    assert.equal((await ended(under.runtime, spec.name)).kind, "lost");
  });

  test("a job of before a restart of the machine is lost, whoever has its pids now", async (t) => {
    const { under, spec } = await started(t, { says: ["ready"], ends: { exit: 0 } });
    await ended(under.runtime, spec.name);
    const job = under.place(spec.name);
    const { pid, startTime } = processTable.find(process.pid) ?? assert.fail();
    const somebody = { pid, startTime, bootId: "before" };
    writeRecord(job.claim, { keeper: somebody });
    writeRecord(job.program, somebody);
    await rm(job.exit);

    const because = "the machine was restarted while it ran";
    const lost = { kind: "exited", exit: { kind: "lost", because } };
    assert.deepEqual(await under.runtime.inspect(spec.name), lost);
    // This very process would die of it if the pid alone counted.
    await under.runtime.stop(spec.name, 0);
  });

  test("removes what a dead maker left half done, and nothing of a living one", async (t) => {
    const { under, spec } = await prepared(t, shell("exit 0"));
    const dead = join(under.directory, "jobs/.draft-999999999-00");
    const living = join(under.directory, `jobs/.draft-${process.ppid}-00`);
    await mkdir(dead, { recursive: true });
    await mkdir(living, { recursive: true });

    await under.runtime.start(spec);

    assert.ok(!existsSync(dead));
    assert.ok(existsSync(living));
    assert.deepEqual(await under.runtime.list(), [spec.name]);
  });
});

describe("the process runtime", () => {
  const LEFT = {
    "of which it left word": `setsid sh -c 'echo $$ > "$EXCLAVE_RUN_DIR/pid"
        printf "{\\"pid\\":%s}" $$ > "$EXCLAVE_RUN_DIR/web.json"; exec sleep 60' &`,
    "with an environment of its own": `P="$EXCLAVE_RUN_DIR/pid" setsid sh -c 'echo $$ > "$P"; exec env -i sleep 60' &`,
  };
  for (const [how, command] of Object.entries(LEFT)) {
    test(`lets a service ${how} outlive its job`, async (t) => {
      const serve = `${command}
      while [ ! -s "$EXCLAVE_RUN_DIR/pid" ]; do sleep 0.02; done; sleep 0.1`;
      const { under, spec } = await prepared(t, shell(serve));
      await under.runtime.start(spec);
      await ended(under.runtime, spec.name);

      await under.runtime.remove(spec.name);

      const pid = Number(await readFile(join(under.directory, "run/pid"), "utf8"));
      t.after(() => process.kill(pid, "SIGKILL"));
      assert.equal(processTable.find(pid)?.isZombie, false);
    });
  }

  const ESCAPE = `setsid sh -c 'echo $$ > "$EXCLAVE_RUN_DIR/pid"; exec sleep 60' &
      while [ ! -s "$EXCLAVE_RUN_DIR/pid" ]; do sleep 0.02; done`;
  for (const [how, script, stops] of [
    ["ends", ESCAPE, false],
    ["is cancelled", `${ESCAPE}; echo ready; sleep 60`, true],
  ] as const) {
    test(`a process that left the session without a word ends when its job ${how}`, async (t) => {
      const { under, spec } = await prepared(t, shell(script));
      const pidFile = join(under.directory, "run/pid");
      await under.runtime.start(spec);
      await until(async () => existsSync(pidFile) && (await readFile(pidFile, "utf8")) !== "");
      if (stops) await under.runtime.stop(spec.name, 0);
      await ended(under.runtime, spec.name);

      const pid = Number(await readFile(pidFile, "utf8"));

      const left = processTable.find(pid);
      assert.ok(left === undefined || left.isZombie, `process ${pid} still runs`);
    });
  }

  test("a job that prints without end is ended, and says why", async (t) => {
    const { under, spec } = await prepared(t, shell("yes"));

    await under.runtime.start({ ...spec, limits: { logBytesMax: 1 } });
    const exit = await ended(under.runtime, spec.name);

    assert.ok(exit.kind === "over-limit", JSON.stringify(exit));
    assert.match(exit.because, /it printed [0-9]+ bytes, with a log of 1 at most/);
  });

  test("a job that fills its own directory is ended, and says why", async (t) => {
    const fill = 'head -c 3000000 /dev/zero > "$TMPDIR/file"; sleep 60';
    const { under, spec } = await prepared(t, shell(fill));

    await under.runtime.start({ ...spec, limits: { diskBytesMax: 1_000_000 } });
    const exit = await ended(under.runtime, spec.name);

    assert.ok(exit.kind === "over-limit", JSON.stringify(exit));
    assert.match(exit.because, /its directory has [0-9]+ bytes and may have 1000000/);
  });

  const TAMPERING: Record<string, (root: string) => Promise<void>> = {
    "a changed program": async (root) => {
      await chmod(join(root, "program"), 0o755);
      await writeFile(join(root, "program"), "#!/bin/sh\necho evil\n");
    },
    "a changed mode": (root) => chmod(join(root, "program"), 0o777),
    "a file more": async (root) => {
      await chmod(root, 0o755);
      await writeFile(join(root, "extra"), "");
      await chmod(root, 0o555);
    },
    "a file less": async (root) => {
      await chmod(root, 0o755);
      await rm(join(root, "program"));
    },
    "a record that is none": (root) => {
      return rm(join(root, "..", "image.json")).then(() =>
        writeFile(join(root, "..", "image.json"), "{}"),
      );
    },
  };
  for (const [what, tamper] of Object.entries(TAMPERING)) {
    for (const [who, isNew] of [
      ["the same agent", false],
      ["a later one", true],
    ] as const) {
      test(`an unpacked image with ${what} is not run from by ${who}, but unpacked again, on record`, async (t) => {
        const { under, spec } = await prepared(t, shell("echo good"));
        const later = await specOf(under, shell("echo good"));
        cleanUp(t, under.runtime, later.name);
        await under.runtime.start(spec);
        await ended(under.runtime, spec.name);
        const [image] = await readdir(join(under.directory, "images"));
        await tamper(join(under.directory, "images", image ?? "", "root"));

        const runtime = isNew ? under.open() : under.runtime;
        await runtime.start(later);
        await ended(runtime, later.name);

        const said = await outputText(runtime, later.name);
        assert.match(
          said,
          /^exclave: the unpacked image sha256:[0-9a-f]+ was changed .*again\ngood\n$/,
        );
      });
    }
  }

  test("that an image was changed is said before it is unpacked again, and nothing starts unsaid", async (t) => {
    const { under, spec } = await prepared(t, shell("echo good"));
    const later = await specOf(under, shell("echo good"));
    cleanUp(t, under.runtime, later.name);
    await under.runtime.start(spec);
    await ended(under.runtime, spec.name);
    const [image] = await readdir(join(under.directory, "images"));
    const root = join(under.directory, "images", image ?? "", "root");
    await TAMPERING["a changed program"]?.(root);
    const said: string[] = [];
    const unsaid = under.open({
      onImageChanged: async () => {
        throw new Failure("disk_full", "there is no room for it on record");
      },
    });
    const runtime = under.open({
      onImageChanged: async (because) => {
        said.push(because, await readFile(join(root, "program"), "utf8"));
      },
    });

    await assert.rejects(unsaid.start(later), /no room for it on record/);
    await runtime.start(later);

    assert.match(said[0] ?? "", /the unpacked image sha256:[0-9a-f]+ was changed on this machine/);
    assert.match(said[1] ?? "", /echo evil/);
    await ended(runtime, later.name);
    assert.match(await outputText(runtime, later.name), /good\n$/);
  });

  test("what an image holds is not writable", async (t) => {
    const { under, spec } = await prepared(t, shell("exit 0"));
    await under.runtime.start(spec);
    await ended(under.runtime, spec.name);

    const [image] = await readdir(join(under.directory, "images"));
    const root = join(under.directory, "images", image ?? "", "root");

    for (const path of [root, join(root, "program")]) {
      assert.equal((await stat(path)).mode & 0o777, 0o555);
    }
  });

  test("when memory runs out, a job goes before its keeper", { skip: !isLinux }, async (t) => {
    const script = shell(
      'read -r own < /proc/self/oom_score_adj; read -r keeper < "/proc/$PPID/oom_score_adj"; echo "$own $keeper"',
    );
    const { under, spec } = await started(t, script);

    assert.deepEqual(await ended(under.runtime, spec.name), { kind: "code", code: 0 });

    const [own, keeper] = (await outputText(under.runtime, spec.name)).split(" ").map(Number);
    assert.equal(own, 100);
    assert.equal(keeper, Number(await readFile("/proc/self/oom_score_adj", "utf8")));
  });

  test("tells a job that asked for a limit it does not enforce, in its log", async (t) => {
    const { under, spec } = await prepared(t, shell("echo ran"));
    const usual = await specOf(under, shell("echo ran"));
    cleanUp(t, under.runtime, usual.name);

    await under.runtime.start({ ...spec, limits: { cpus: 1 } });
    await under.runtime.start({ ...usual, limits: { cpus: DEFAULT_LIMITS.cpus } });
    for (const { name } of [spec, usual]) await ended(under.runtime, name);

    const note = "exclave: limits.cpus is 1, and the process runtime does not enforce it\n";
    assert.equal(await outputText(under.runtime, spec.name), `${note}ran\n`);
    assert.equal(await outputText(under.runtime, usual.name), "ran\n");
  });

  test("says of every limit what it does about it", async (t) => {
    const { runtime } = await createUnderTest(t);

    assert.deepEqual(runtime.capabilities.limits, {
      memoryBytes: "watched",
      processesMax: "watched",
      cpus: "none",
      logBytesMax: "watched",
      diskBytesMax: "watched",
    });
  });

  test("unpacks an image once, for jobs that start together and for later ones", async (t) => {
    const under = await createUnderTest(t);
    const images = createScriptImages(join(under.directory, "store"));
    let unpacked = 0;
    const runtime = under.open({
      openImage: {
        unpack: (ref, directory) => {
          unpacked += 1;
          return images.unpack(ref, directory);
        },
      },
    });
    const specs: JobSpec[] = [];
    for (let made = 0; made < 3; made++) specs.push(await specOf(under, shell("exit 0")));
    cleanUp(t, runtime, ...specs.map(({ name }) => name));

    const [late, ...together] = specs;
    await Promise.all(together.map((spec) => runtime.start(spec)));
    assert.ok(late);
    await runtime.start(late);

    assert.equal(unpacked, 1);
    assert.equal((await readdir(join(under.directory, "images"))).length, 1);
  });

  test("an image that cannot be had leaves no job and no half of an image behind", async (t) => {
    const { under, spec } = await prepared(t, shell("exit 0"));
    const image = { ...spec.image, digest: `sha256:${"0".repeat(64)}` };

    await assert.rejects(under.runtime.start({ ...spec, image }), { code: "not_synced" });

    assert.deepEqual(await under.runtime.inspect(spec.name), { kind: "absent" });
    assert.deepEqual(await readdir(join(under.directory, "images")), []);
  });

  for (const [title, changes] of [
    ["a file outside the job's directory", { files: { "../escape": "x" } }],
    ["a state volume outside its place", { stateVolume: "../escape" }],
  ] as const) {
    test(`refuses ${title}`, async (t) => {
      const { under, spec } = await prepared(t, shell("exit 0"));

      await assert.rejects(under.runtime.start({ ...spec, ...changes }), { code: "invalid" });

      assert.deepEqual(await under.runtime.list(), []);
    });
  }

  test("says so when the place where jobs live cannot be used", async (t) => {
    const { under, spec } = await prepared(t, shell("exit 0"));
    const directory = join(under.directory, "a-file");
    await writeFile(directory, "");

    await assert.rejects(under.open({ directory }).start(spec), (reason: Failure) => {
      assert.equal(reason.code, "unavailable");
      assert.match(reason.message, /^cannot start j-.*: the place where jobs live cannot be used/);
      return true;
    });
  });

  test("says so when the disk is full, and starts the job once there is room", async (t) => {
    const { under, spec } = await prepared(t, shell("exit 0"));
    const full = under.open({
      openImage: {
        unpack: async (_, directory) => {
          await writeFile(join(directory, "half"), "");
          throw Object.assign(new Error("no space left on device"), { code: "ENOSPC" });
        },
      },
    });

    await assert.rejects(full.start(spec), { code: "disk_full" });
    await under.runtime.start(spec);

    assert.deepEqual(await ended(under.runtime, spec.name), { kind: "code", code: 0 });
  });

  test("a job ended at its deadline says why in its output, on a line of its own", async (t) => {
    const { under, spec } = await prepared(t, shell("printf 'half a line'; sleep 60"));

    await under.runtime.start({ ...spec, deadlineMs: 300 });
    await ended(under.runtime, spec.name);

    assert.equal(
      await outputText(under.runtime, spec.name),
      "half a line\nexclave: stopped: it was still running after 300 ms\n",
    );
  });
});

async function prepared(t: TestContext, script: JobScript) {
  const under = await createUnderTest(t);
  const spec: JobSpec = await specOf(under, script);
  cleanUp(t, under.runtime, spec.name);
  return { under, spec };
}

/** Started, and known to be at work because it has said something. */
async function started(t: TestContext, script: JobScript) {
  const made = await prepared(t, script);
  await made.under.runtime.start(made.spec);
  const reader = new AbortController();
  await collect(made.under.runtime.output(made.spec.name, 0, reader.signal), () => reader.abort());
  return made;
}
