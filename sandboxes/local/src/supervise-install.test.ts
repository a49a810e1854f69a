// The supervisor as it is in life: a process of its own, with children, killed and stopped.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createPrivateKey, createPublicKey } from "node:crypto";
import { once } from "node:events";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, type TestContext as NodeTest, test } from "node:test";
import { identifyProcess, isRunning, type ProcessIdentity } from "@exclave/plugin-sdk";
import type { Home } from "./home.ts";
import { capLog, keepUp, nextWait } from "./keep-up.ts";
import { runningProcess } from "./process-record.ts";
import { childRecord, stopInstall, supervisorRecord } from "./stop-install.ts";
import { eventually, sandboxUnderTest } from "./testing/stand-ins.ts";

const INIT = join(import.meta.dirname, "init.ts");

describe("the supervisor of a local install", () => {
  for (const name of ["agent", "registry"] as const) {
    test(`starts the ${name} again after kill -9`, async (t) => {
      const home = await runningInstall(t);
      const before = await child(home, name);

      process.kill(before.pid, "SIGKILL");

      const after = await eventually(`another ${name}`, async () => {
        const now = await runningProcess(childRecord(home, name));
        return now && now.pid !== before.pid ? now : undefined;
      });
      assert.ok(isRunning(after));
    });
  }

  for (const half of ["tokenKey", "tokenPublicKey"] as const) {
    test(`makes lost keys of the registry anew, and the registry reads them: ${half}`, async (t) => {
      const home = await runningInstall(t);
      const before = await child(home, "registry");

      await rm(home[half]);

      await eventually("another registry", async () => {
        const now = await runningProcess(childRecord(home, "registry"));
        return now && now.pid !== before.pid ? now : undefined;
      });
      const key = createPrivateKey(await readFile(home.tokenKey, "utf8"));
      const derived = createPublicKey(key).export({ type: "spki", format: "pem" });
      assert.equal(await readFile(home.tokenPublicKey, "utf8"), derived);
    });
  }

  test("starts no second program beside one that cannot be put on record", async (t) => {
    const directory = await mkdtemp(join(tmpdir(), "exclave-keep-up-"));
    t.after(() => rm(directory, { recursive: true, force: true }));
    const starts = join(directory, "starts");
    const script = `require("node:fs").appendFileSync(${JSON.stringify(starts)}, "x"); setInterval(() => {}, 60_000)`;
    const records = join(directory, "records");
    // A file where the directory should be stands for a full disk: the record cannot be written, and later it can.
    await writeFile(records, "");
    const said: string[] = [];
    const keeping = keepUp({
      name: "agent",
      argv: [process.execPath, "-e", script],
      cwd: directory,
      environment: {},
      logFile: join(directory, "agent.log"),
      recordFile: join(records, "agent.json"),
      log: (message) => void said.push(message),
      stopGraceMs: 1_000,
    });
    t.after(() => keeping.stop());
    await eventually("two tries", async () => said.length >= 2 || undefined);
    assert.match(said[0] ?? "", /agent runs, but cannot be put on record yet/);

    await rm(records);
    await eventually("its record", () => runningProcess(join(records, "agent.json")));

    assert.equal(await readFile(starts, "utf8"), "x");
  });

  test("is one: a second says so and leaves the first alone", async (t) => {
    const home = await runningInstall(t);
    const first = await runningProcess(supervisorRecord(home));

    const { code, output } = await runInit(["--home", home.directory]);

    assert.equal(code, 0);
    assert.match(output, /already looked after/);
    assert.deepEqual(await runningProcess(supervisorRecord(home)), first);
  });

  test("takes over from one that was killed, and ends what that one left", async (t) => {
    const home = await runningInstall(t);
    const agent = await child(home, "agent");
    const supervisor = await runningProcess(supervisorRecord(home));
    process.kill(supervisor?.pid ?? 0, "SIGKILL");

    launch(t, [INIT, "--home", home.directory]);
    await eventually("a new agent", async () => {
      const now = await runningProcess(childRecord(home, "agent"));
      return now && now.pid !== agent.pid ? now : undefined;
    });

    assert.equal(isRunning(agent), false, "two agents at once");
  });

  test("--stop leaves nothing running: agent, registry, jobs, services", async (t) => {
    const home = await runningInstall(t);
    const parts = [await child(home, "agent"), await child(home, "registry")];
    const service = await leaveService(t, home, "web");
    const job = await leaveJob(t, home, "j-one-1");

    const { code, output } = await runInit(["--stop", "--home", home.directory]);

    assert.equal(code, 0, output);
    for (const part of [...parts, service, ...job]) {
      assert.equal(isRunning(part), false, `${part.pid} still runs`);
    }
    assert.deepEqual(await readdir(home.run), ["web.json"], "the record stays for the next start");
  });

  test("--stop also ends a program on record that leads no group", async (t) => {
    const home = await runningInstall(t);
    const started = spawn(process.execPath, STAY, { stdio: "ignore" });
    const identity = identifyProcess(started.pid ?? 0);
    assert.ok(identity);
    const entry = { name: "web", ...identity, argv: ["true"], cwd: home.directory };
    await writeFile(join(home.run, "web.json"), JSON.stringify(entry));

    await stopInstall({ home, log: () => undefined, graceMs: 100 });

    assert.equal(isRunning(identity), false);
  });

  test("brings services back that were stopped, and puts their new process on record", async (t) => {
    const home = await runningInstall(t);
    const before = await leaveService(t, home, "web");
    await runInit(["--stop", "--home", home.directory]);

    launch(t, [INIT, "--home", home.directory]);

    const after = await eventually("the service", () => runningProcess(join(home.run, "web.json")));
    assert.notEqual(after.pid, before.pid);
    const record = JSON.parse(await readFile(join(home.run, "web.json"), "utf8"));
    assert.equal(record.note, "kept", "what else the record says is not ours to drop");
    await runInit(["--stop", "--home", home.directory]);
  });

  test("leaves a service alone that is running", async (t) => {
    const home = await runningInstall(t);
    const service = await leaveService(t, home, "web");
    const supervisor = await runningProcess(supervisorRecord(home));
    process.kill(supervisor?.pid ?? 0, "SIGKILL");

    launch(t, [INIT, "--home", home.directory]);
    await eventually("a supervisor", () => runningProcess(supervisorRecord(home)));
    await eventually("its agent", () => runningProcess(childRecord(home, "agent")));

    assert.deepEqual(await runningProcess(join(home.run, "web.json")), service);
  });

  test("is not kept from starting by a record that cannot be read or run", async (t) => {
    const home = await runningInstall(t);
    await runInit(["--stop", "--home", home.directory]);
    await writeFile(join(home.run, "a.json"), "{ torn");
    const gone = { name: "b", pid: 1, startTime: "0", argv: ["/no/such/program"], cwd: "/" };
    await writeFile(join(home.run, "b.json"), JSON.stringify(gone));

    launch(t, [INIT, "--home", home.directory]);

    await eventually("the agent", () => runningProcess(childRecord(home, "agent")));
  });

  test("stops an install that does not run without complaint", async (t) => {
    const home = await runningInstall(t);
    await runInit(["--stop", "--home", home.directory]);

    assert.equal((await runInit(["--stop", "--home", home.directory])).code, 0);
  });

  test("says what is wrong with a home that is none", async () => {
    const { code, output } = await runInit(["--home", join(import.meta.dirname, "nowhere")]);

    assert.equal(code, 1);
    assert.match(output, /no install was set up/);
  });
});

describe("waiting before a restart", () => {
  test("doubles up to five seconds, and begins anew after ten good ones", () => {
    let waitMs = 0;
    const waits = Array.from({ length: 7 }, () => {
      waitMs = nextWait(waitMs, 50);
      return waitMs;
    });

    assert.deepEqual(waits, [200, 400, 800, 1_600, 3_200, 5_000, 5_000]);
    assert.equal(nextWait(5_000, 10_000), 200);
  });
});

test("a log that grew too large is moved aside and goes on empty", async (t) => {
  const home = await runningInstall(t);
  const log = join(home.logs, "some.log");
  await writeFile(log, "x".repeat(100));

  await capLog(log, 1_000);
  assert.equal((await readFile(log)).length, 100);
  await capLog(log, 50);

  assert.equal((await readFile(log)).length, 0);
  assert.equal((await readFile(`${log}.1`)).length, 100);
});

async function runningInstall(t: NodeTest): Promise<Home> {
  const { home, run } = await sandboxUnderTest(t);
  await run("apply");
  return home;
}

async function child(home: Home, name: "agent" | "registry"): Promise<ProcessIdentity> {
  return eventually(name, () => runningProcess(childRecord(home, name)));
}

async function runInit(args: readonly string[]): Promise<{ code: number; output: string }> {
  const process_ = spawn(process.execPath, [INIT, ...args], { stdio: ["ignore", "pipe", "pipe"] });
  const said: Buffer[] = [];
  process_.stdout.on("data", (chunk: Buffer) => said.push(chunk));
  process_.stderr.on("data", (chunk: Buffer) => said.push(chunk));
  const [code] = await once(process_, "close");
  return { code, output: Buffer.concat(said).toString() };
}

function launch(t: NodeTest, argv: readonly string[]): number {
  const started = spawn(process.execPath, argv, { stdio: "ignore", detached: true });
  const { pid } = started;
  assert.ok(pid);
  started.unref();
  t.after(async () => {
    if (identifyProcess(pid)) process.kill(pid, "SIGTERM");
  });
  return pid;
}

const STAY = ["-e", "setInterval(() => undefined, 60_000)"];

/** A program that stays, on record the way a component's plugin leaves one. */
async function leaveService(t: NodeTest, home: Home, name: string): Promise<ProcessIdentity> {
  const identity = identifyProcess(launch(t, STAY));
  assert.ok(identity);
  const entry = { name, ...identity, argv: [process.execPath, ...STAY], cwd: home.directory };
  await mkdir(home.run, { recursive: true });
  await writeFile(join(home.run, `${name}.json`), JSON.stringify({ ...entry, note: "kept" }));
  return identity;
}

/** A job of the process runtime: its program, and a keeper that ends once the program has. */
async function leaveJob(t: NodeTest, home: Home, name: string): Promise<ProcessIdentity[]> {
  const program = identifyProcess(launch(t, STAY));
  assert.ok(program);
  const watch = `process.on("SIGTERM", () => undefined);
    setInterval(() => { try { process.kill(${program.pid}, 0) } catch { process.exit() } }, 20);`;
  const keeper = identifyProcess(launch(t, ["-e", watch]));
  assert.ok(keeper);
  const directory = join(home.runtime, "jobs", name);
  await mkdir(directory, { recursive: true });
  await writeFile(join(directory, "program.json"), JSON.stringify(program));
  await writeFile(join(directory, "claim.json"), JSON.stringify({ keeper }));
  return [program, keeper];
}
