import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Failure } from "@exclave/plugin-sdk";
import { isRunning } from "@exclave/plugin-sdk/processes";
import { createTestContext, type TestContext as Harness } from "@exclave/plugin-sdk/testing";
import { readStatus } from "./instance.ts";
import { plugin } from "./plugin.ts";
import { currentInstance } from "./service-state.ts";

const SERVER = `
  import { createServer } from "node:http";
  import { appendFileSync } from "node:fs";
  appendFileSync(process.env.EXCLAVE_DATA_DIR + "/starts", process.pid + "\\n");
  createServer((request, response) => {
    console.log("asked for " + request.url);
    response.statusCode = request.url === "/broken" ? 500 : 200;
    response.end(process.env.GREETING ?? "hello");
  }).listen(Number(process.env.PORT), "127.0.0.1", () => console.log("listening"));
`;
const CONFIG = { command: ["node", "server.mjs"], health: { path: "/ready" } };
const DIGEST = { a: `sha256:${"a".repeat(64)}`, b: `sha256:${"b".repeat(64)}` };

async function service(t: TestContext, program = SERVER, config: object = CONFIG) {
  const context = await createTestContext(plugin, {
    config: { ...config },
    component: "web",
    artifact: { repository: "apps/shop/web", digest: DIGEST.a },
  });
  t.after(async () => {
    await context.run("destroy");
    await rm(context.directory, { recursive: true, force: true });
  });
  await writeFile(join(context.files, "server.mjs"), program);
  return context;
}

const artifact = (digest: string) => ({ artifact: { repository: "apps/shop/web", digest } });
const health = async (context: Harness) => (await context.run("status")).status?.health;
const starts = async ({ stateDirectory }: Harness) =>
  (await readFile(join(stateDirectory, "data/starts"), "utf8")).trim().split("\n");
const answer = async (url: unknown) => (await fetch(String(url))).text();

async function until(isTrue: () => Promise<boolean> | boolean): Promise<void> {
  for (let tries = 0; tries < 400; tries++) {
    if (await isTrue()) return;
    await sleep(25);
  }
  assert.fail("it did not come to be within ten seconds");
}

function processes({ stateDirectory }: Harness) {
  const status = readStatus(currentInstance(stateDirectory) ?? "");
  assert.ok(status?.program);
  return { supervisor: status.supervisor, program: status.program };
}

test("apply starts the program, waits until it is well, and says where it listens", async (t) => {
  const context = await service(t);

  const { outputs } = await context.run("apply");

  assert.equal(await answer(outputs.url), "hello");
  assert.equal(outputs.url, `http://127.0.0.1:${Number(outputs.port)}`);
  assert.equal(await health(context), "healthy");
});

test("an apply that changes nothing restarts nothing", async (t) => {
  const context = await service(t);
  await context.run("apply");

  const { outputs } = await context.run("apply");

  assert.equal((await starts(context)).length, 1);
  assert.equal(await answer(outputs.url), "hello");
});

test("a changed configuration replaces the program on the same port", async (t) => {
  const context = await service(t);
  const first = await context.run("apply");
  const before = processes(context);

  const config = { ...CONFIG, environment: { GREETING: "good day" } };
  const second = await context.run("apply", { config });

  assert.equal(await answer(second.outputs.url), "good day");
  assert.equal(second.outputs.port, first.outputs.port);
  assert.ok(!isRunning(before.supervisor) && !isRunning(before.program));
  assert.equal((await readdir(join(context.stateDirectory, "instances"))).length, 1);
});

test("a version that does not come up is taken back, with its last words", async (t) => {
  const context = await service(t);
  const { outputs } = await context.run("apply");
  await writeFile(
    join(context.files, "server.mjs"),
    'console.error("no database"); process.exit(3);',
  );

  await assert.rejects(context.run("apply", artifact(DIGEST.b)), (reason: Failure) => {
    assert.equal(reason.code, "tool");
    assert.match(reason.message, /does not stay up: it exited with 3; its last words: no database/);
    return true;
  });

  await until(async () => (await health(context)) === "healthy");
  assert.equal(await answer(outputs.url), "hello");
});

test("a first version that never gets well leaves nothing running", async (t) => {
  const context = await service(t, SERVER, {
    command: ["node", "server.mjs"],
    health: { path: "/broken", timeoutSeconds: 6 },
  });

  await assert.rejects(context.run("apply"), /not healthy after 6 s: \/broken answers 500/);

  const [instance = ""] = await readdir(join(context.stateDirectory, "instances"));
  const status = readStatus(join(context.stateDirectory, "instances", instance));
  assert.ok(!isRunning(status?.supervisor) && !isRunning(status?.program));
  assert.deepEqual(await readdir(context.runDirectory), []);
  assert.equal(await health(context), "missing");
});

test("a program that cannot be found fails the apply by name", async (t) => {
  const context = await service(t, "", { command: ["./no-such-program"] });

  await assert.rejects(context.run("apply"), /cannot be started.*ENOENT/);
});

test("somebody else's answer on the port is not taken for ours", async (t) => {
  const other = createServer((_, response) => response.end("not you")).listen(0, "127.0.0.1");
  await once(other, "listening");
  t.after(() => other.close());
  const { port } = other.address() as AddressInfo;
  const context = await service(t, SERVER, { ...CONFIG, port });

  await assert.rejects(context.run("apply"), /port \d+ is taken by another program/);
});

test("a program that dies is started again", async (t) => {
  const context = await service(t);
  await context.run("apply");
  const { program } = processes(context);

  process.kill(program.pid, "SIGKILL");

  await until(async () => (await starts(context)).length === 2);
  await until(async () => (await health(context)) === "healthy");
});

test("a lost supervisor is missing, and an apply brings it back without a second program", async (t) => {
  const context = await service(t);
  await context.run("apply");
  const { supervisor, program } = processes(context);

  process.kill(supervisor.pid, "SIGKILL");
  await until(() => !isRunning(supervisor));
  assert.equal(await health(context), "missing");
  const { outputs } = await context.run("apply");

  assert.ok(!isRunning(program), "the program of the lost supervisor must be gone");
  assert.equal(await answer(outputs.url), "hello");
});

test("the sandbox can stop it and start it again from what it left in the run directory", async (t) => {
  const context = await service(t);
  const { outputs } = await context.run("apply");
  const before = processes(context);
  const word = JSON.parse(await readFile(join(context.runDirectory, "web.json"), "utf8"));
  assert.equal(word.pid, before.supervisor.pid);
  assert.equal(word.startTime, before.supervisor.startTime);

  process.kill(word.pid, "SIGTERM");
  await until(() => !isRunning(before.supervisor) && !isRunning(before.program));
  const [program, ...args] = word.argv;
  spawn(program, args, { cwd: word.cwd, detached: true, stdio: "ignore", env: {} }).unref();

  await until(async () => (await health(context)) === "healthy");
  assert.equal(await answer(outputs.url), "hello");
});

test("secrets in the environment are in no argument list and in no readable file", async (t) => {
  const config = { ...CONFIG, environment: { GREETING: "s3cret-value" } };
  const context = await service(t, SERVER, config);
  await context.run("apply");
  const { supervisor, program } = processes(context);

  for (const { pid } of [supervisor, program]) {
    assert.doesNotMatch(await readFile(`/proc/${pid}/cmdline`, "utf8"), /s3cret/);
  }
  const spec = join(currentInstance(context.stateDirectory) ?? "", "spec.json");
  assert.equal((await stat(spec)).mode & 0o777, 0o600);
});

test("logs gives the tail, and follows until it is told to stop", async (t) => {
  const context = await service(t);
  const url = String((await context.run("apply")).outputs.url);
  await answer(`${url}/one`);
  const tail = await context.run("logs", { parameters: { tailLines: 1 } });
  assert.deepEqual(tail.logs, ["asked for /one"]);

  const controller = new AbortController();
  const following = context.run("logs", {
    parameters: { tailLines: 1, follow: true },
    signal: controller.signal,
    onLine: (line) => {
      if (line.type !== "log") return;
      if (line.message === "asked for /one") void answer(`${url}/two`);
      if (line.message === "asked for /two") controller.abort();
    },
  });

  assert.deepEqual((await following).logs, ["asked for /one", "asked for /two"]);
});

test("exec runs beside the program, with its environment, in its files", async (t) => {
  const context = await service(t);
  const { outputs } = await context.run("apply");

  const command = ["sh", "-c", 'ls; echo "$PORT"; exit 5'];
  const { exitCode, logs } = await context.run("exec", { parameters: { command } });

  assert.equal(exitCode, 5);
  assert.deepEqual(logs, ["server.mjs", String(outputs.port)]);
});

test("destroy ends everything the program started, and can be repeated", async (t) => {
  const program = `
    import { spawn } from "node:child_process";
    const child = spawn("sleep", ["1000"]);
    console.log("child " + child.pid);
    process.on("SIGTERM", () => undefined);
    setInterval(() => undefined, 1000);
  `;
  const context = await service(t, program, { command: ["node", "server.mjs"], stopSeconds: 1 });
  await context.run("apply");
  const { supervisor, program: parent } = processes(context);
  const [line = ""] = (await context.run("logs")).logs;
  const child = Number(line.replace("child ", ""));

  await context.run("destroy");

  assert.ok(!isRunning(supervisor) && !isRunning(parent));
  assert.throws(() => process.kill(child, 0), { code: "ESRCH" });
  assert.deepEqual(await readdir(context.stateDirectory), []);
  assert.deepEqual(await readdir(context.runDirectory), []);
  assert.deepEqual((await context.run("destroy")).logs, ["there was nothing to destroy"]);
});
