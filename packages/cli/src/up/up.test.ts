// The parts of `up` that look after processes, with real ones. The whole is tested end to end.

import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, type TestContext, test } from "node:test";
import { Failure } from "@exclave/core";
import { identifyProcess, isRunning } from "@exclave/machine";
import { readUpRecord } from "../connection/connection.ts";
import { type Home, homeOf } from "../connection/home.ts";
import { createBench } from "../testing/run-cli.ts";
import { createChildProgram } from "./child-program.ts";
import { choosePort } from "./port.ts";
import { isOurs } from "./processes.ts";
import { isVendorProgram } from "./run-up.ts";
import { takeUpLock } from "./up-lock.ts";
import { watchInstalls } from "./watch-installs.ts";

async function temporaryHome(t: TestContext) {
  const directory = await mkdtemp(join(tmpdir(), "exclave-up-"));
  t.after(() => rm(directory, { recursive: true, force: true }));
  return homeOf({ EXCLAVE_HOME: directory });
}

async function taken(t: TestContext): Promise<number> {
  const server = createServer().listen({ host: "127.0.0.1", port: 0 });
  await once(server, "listening");
  t.after(() => server.close());
  const address = server.address();
  assert.ok(address && typeof address === "object");
  return address.port;
}

const hurry = new AbortController().signal;

describe("the port", () => {
  test("is kept from the first start on", async (t) => {
    const home = await temporaryHome(t);

    const first = await choosePort(home, undefined);
    const second = await choosePort(home, undefined);

    assert.equal(second, first);
  });

  test("that another program took in between is named", async (t) => {
    const home = await temporaryHome(t);
    const port = await taken(t);
    await choosePort(home, undefined);
    await writeFile(home.portFile, `${port}\n`);

    await assert.rejects(choosePort(home, undefined), new RegExp(`port ${port} is taken`));
  });

  test("cannot be changed later, because the agents know the first one", async (t) => {
    const home = await temporaryHome(t);
    const port = await choosePort(home, undefined);

    await assert.rejects(choosePort(home, port + 1), /its agents know it by that/);
  });

  test("that was asked for and is taken is refused at the first start", async (t) => {
    const home = await temporaryHome(t);

    await assert.rejects(choosePort(home, await taken(t)), /is taken by another program/);
  });
});

describe("the lock", () => {
  test("is held by one at a time, and its holder is named", async (t) => {
    const home = await temporaryHome(t);
    const lock = await takeUpLock(home);

    await assert.rejects(takeUpLock(home), new RegExp(`up already .*process ${process.pid}`));
    await lock.release();
    await (await takeUpLock(home)).release();
  });

  test("of a process that is gone is taken over, with word of what it left behind", async (t) => {
    const home = await temporaryHome(t);
    const lock = await takeUpLock(home);
    const children = [{ name: "server", pid: 1, startTime: "0" }];
    await lock.record({ url: "http://127.0.0.1:8420" }, () => children);
    await writeFile(
      join(home.runDirectory, "up.lock"),
      JSON.stringify({ pid: process.pid, startTime: "0" }),
    );

    const next = await takeUpLock(home);

    assert.deepEqual(next.abandoned?.children, children);
    await next.release();
    assert.equal(await readUpRecord(home), undefined);
  });
});

describe("the book", () => {
  test("ends with what runs last, whatever order its writes were asked for in", async (t) => {
    const home = await temporaryHome(t);
    const lock = await takeUpLock(home);
    const living: { name: string; pid: number; startTime: string }[] = [];

    const writes = ["server", "build agent", "setup agent"].map((name, index) => {
      living.push({ name, pid: index + 1, startTime: "0" });
      return lock.record({ url: "http://127.0.0.1:8420" }, () => [...living]);
    });
    await Promise.all(writes);

    assert.deepEqual((await readUpRecord(home))?.children, living);
    await lock.release();
  });

  test("is not needed to tell the server and the vendor's agents of an earlier start", async (t) => {
    const home = await temporaryHome(t);
    const agent = (directory: string) => ["node", "agent.mjs", "x", "--home", directory];

    const isVendor = (argv: string[]) => isVendorProgram(argv, home);

    assert.ok(isVendor(["node", "server.mjs", "--data", home.serverDirectory]));
    assert.ok(isVendor(agent(join(home.agentsDirectory, "build"))));
    assert.ok(!isVendor(agent(join(home.installsDirectory, "acme"))));
    assert.ok(!isVendor(["node", "server.mjs", "--data", "/elsewhere"]));
    assert.ok(!isVendor(["node", join(home.agentsDirectory, "build", "runtime", "job")]));
  });
});

describe("the supervisors of installs", () => {
  async function installIn(home: Home, name: string, record: object | undefined) {
    const directory = join(home.installsDirectory, name);
    await mkdir(join(directory, "bin"), { recursive: true });
    await mkdir(join(directory, "init"));
    await writeFile(join(directory, "sandbox.json"), "{}");
    await writeFile(join(directory, "bin", "init.mjs"), "");
    if (record) await writeFile(join(directory, "init", "init.json"), JSON.stringify(record));
  }

  test("are started again when they were killed, and left alone when they run or were stopped", {
    timeout: 30_000,
  }, async (t) => {
    const home = await temporaryHome(t);
    await installIn(home, "killed", { pid: process.pid, startTime: "0" });
    await installIn(home, "running", identifyProcess(process.pid) ?? {});
    await installIn(home, "stopped", undefined);
    const started: string[] = [];
    const again = Promise.withResolvers<void>();
    const watch = watchInstalls({
      home,
      environment: {},
      say: () => {},
      everyMs: 10,
      start: async ({ name }) => {
        started.push(name);
        if (started.length > 3) again.resolve();
      },
    });

    await watch.startAll();
    await again.promise;
    await watch.stop(AbortSignal.abort());

    assert.deepEqual(started.slice(0, 3).sort(), ["killed", "running", "stopped"]);
    assert.ok(started.slice(3).every((name) => name === "killed"));
  });
});

describe("a home that cannot be used", () => {
  test("is a sentence with what to do, and no stack trace", async (t) => {
    const bench = await createBench(t);
    const file = join(bench.directory, "file");
    await writeFile(file, "");

    const images = join(bench.directory, "images");
    await mkdir(images);
    await writeFile(join(images, "images.json"), "[]");
    const up = (home: string) =>
      bench.run(["up"], { environment: { EXCLAVE_HOME: home, EXCLAVE_IMAGES: images } });

    const below = await up(join(file, "home"));
    const long = await up(join(bench.directory, "x".repeat(200), "y".repeat(200)));

    assert.equal(below.exitCode, 6);
    assert.match(below.stderr, /cannot be written: a part of the path is no directory; remove it/);
    assert.equal(long.exitCode, 2);
    assert.match(long.stderr, /is \d+ bytes long, and at most 350 work; set EXCLAVE_HOME/);
    for (const { stderr } of [below, long]) assert.doesNotMatch(stderr, /\n\s+at |bug/);
  });
});

describe("a server that cannot start", () => {
  test("ends `up` with its reason, and is not started again and again", async (t) => {
    const bench = await createBench(t);
    const home = join(bench.directory, "home");
    const images = join(bench.directory, "images");
    await mkdir(images);
    await writeFile(join(images, "images.json"), "[]");
    await mkdir(join(home, "server"), { recursive: true });
    await writeFile(join(home, "server", "exclave.db.moved"), "");

    const { exitCode, stderr } = await bench.run(["up"], {
      environment: { EXCLAVE_HOME: home, EXCLAVE_IMAGES: images },
    });

    assert.equal(exitCode, 1);
    assert.match(stderr, /the server cannot start: .* set EXCLAVE_DATABASE_URL/);
    assert.ok(stderr.split("starting it again").length <= 2, stderr);
  });
});

describe("a child program", () => {
  test("is started again when it is killed, and stays stopped when it is stopped", async (t) => {
    const home = await temporaryHome(t);
    const said: string[] = [];
    const lines: string[] = [];
    const started = { now: Promise.withResolvers<void>() };
    const program = createChildProgram({
      name: "server",
      program: process.execPath,
      args: async () => [
        "-e",
        "console.error('noise'); console.log('up'); setInterval(() => {}, 1e6)",
      ],
      environment: {},
      logFile: join(home.logDirectory, "server.log"),
      say: (line) => said.push(line),
      onLine: (line) => {
        lines.push(line);
        started.now.resolve();
      },
      onChange: async () => undefined,
    });
    await program.start();
    t.after(() => program.stop({ graceMs: 1_000, hurry }));
    await started.now.promise;
    const first = program.identity();
    assert.ok(first);

    started.now = Promise.withResolvers();
    process.kill(first.pid, "SIGKILL");
    await started.now.promise;
    while (program.identity() === undefined)
      await new Promise((resolve) => setTimeout(resolve, 10));
    const second = program.identity();
    await program.stop({ graceMs: 5_000, hurry });

    assert.ok(second && second.pid !== first.pid);
    assert.match(said[0] ?? "", /^server ended \(SIGKILL\); starting it again/);
    assert.equal(isRunning(second), false);
    assert.deepEqual(lines, ["up", "up"]);
    assert.equal(await readFile(join(home.logDirectory, "server.log"), "utf8"), "noise\nnoise\n");
  });

  test("that cannot be started again because something it needs is away is tried until it can", async (t) => {
    const home = await temporaryHome(t);
    const said: string[] = [];
    const started = { now: Promise.withResolvers<void>() };
    let starts = 0;
    const program = createChildProgram({
      name: "build agent",
      program: process.execPath,
      args: async () => {
        starts++;
        if (starts === 2) throw new Failure("unavailable", "the server cannot be reached");
        return ["-e", "console.log('up'); setInterval(() => {}, 1e6)"];
      },
      environment: {},
      logFile: join(home.logDirectory, "build-agent.log"),
      say: (line) => said.push(line),
      onLine: () => started.now.resolve(),
      onChange: async () => undefined,
    });
    await program.start();
    t.after(() => program.stop({ graceMs: 1_000, hurry }));
    await started.now.promise;

    started.now = Promise.withResolvers();
    process.kill(program.identity()?.pid ?? 0, "SIGKILL");
    await started.now.promise;

    assert.equal(starts, 3);
    assert.match(said[0] ?? "", /^build agent ended \(SIGKILL\)/);
    assert.equal(
      said[1],
      "build agent cannot be started: the server cannot be reached; trying again",
    );
  });

  test("that ignores SIGTERM is killed at once when somebody is in a hurry", async (t) => {
    const home = await temporaryHome(t);
    const ready = Promise.withResolvers<void>();
    const program = createChildProgram({
      name: "stubborn",
      program: process.execPath,
      args: async () => [
        "-e",
        "process.on('SIGTERM', () => {}); console.log('up'); setInterval(() => {}, 1e6)",
      ],
      environment: {},
      logFile: join(home.logDirectory, "stubborn.log"),
      say: () => undefined,
      onLine: () => ready.resolve(),
      onChange: async () => undefined,
    });
    await program.start();
    await ready.promise;
    const identity = program.identity();

    await program.stop({ graceMs: 600_000, hurry: AbortSignal.abort() });

    assert.ok(identity);
    assert.equal(isRunning(identity), false);
  });
});

describe("processes", () => {
  test("are told apart by their start time", async () => {
    const self = identifyProcess(process.pid);

    assert.ok(self);
    assert.equal(isRunning(self), true);
    assert.equal(isRunning({ ...self, startTime: "0" }), false);
    assert.equal(identifyProcess(2 ** 22 + 1), undefined);
  });

  test("are ours when they run out of our home, and not when an editor has a file of it open", () => {
    const home = "/h/.exclave";

    assert.equal(isOurs(["/h/.exclave/installs/acme/bin/node", "init.mjs"], home), true);
    assert.equal(
      isOurs(["/usr/bin/node", "/src/keeper.ts", "/h/.exclave/agents/build/jobs/j"], home),
      true,
    );
    assert.equal(isOurs(["vim", "/h/.exclave/config.yaml"], home), false);
    assert.equal(isOurs(["node", "/h/.exclave-other/x"], home), false);
  });
});
