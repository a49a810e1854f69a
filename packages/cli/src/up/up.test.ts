// The parts of `up` that look after processes, with real ones. The whole is tested end to end.

import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, type TestContext, test } from "node:test";
import { Failure } from "@exclave/core";
import { readUpRecord } from "../connection.ts";
import { homeOf } from "../home.ts";
import { createChildProgram } from "./child-program.ts";
import { choosePort } from "./port.ts";
import { identify, isOurs, isRunning } from "./processes.ts";
import { takeUpLock } from "./up-lock.ts";

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
    await lock.record("http://127.0.0.1:8420", children);
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
    assert.equal(await isRunning(second), false);
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
    assert.equal(await isRunning(identity), false);
  });
});

describe("processes", () => {
  test("are told apart by their start time", async () => {
    const self = await identify(process.pid);

    assert.ok(self);
    assert.equal(await isRunning(self), true);
    assert.equal(await isRunning({ ...self, startTime: "0" }), false);
    assert.equal(await identify(2 ** 22 + 1), undefined);
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
