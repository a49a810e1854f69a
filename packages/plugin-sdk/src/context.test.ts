import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { Failure, type JobLine } from "@exclave/core";
import { type ContextOptions, createOperationContext } from "./context.ts";

async function context(t: TestContext, overrides: Partial<ContextOptions<object>> = {}) {
  const directory = await mkdtemp(join(tmpdir(), "exclave-context-"));
  t.after(() => rm(directory, { recursive: true, force: true }));
  const lines: JobLine[] = [];
  const made = createOperationContext({
    config: {},
    parameters: {},
    install: "acme",
    installId: "iaaaaaaaaaaaaaaaa",
    app: "shop",
    component: "web",
    job: "j1",
    attempt: 1,
    files: directory,
    stateDirectory: directory,
    runDirectory: directory,
    workDirectory: directory,
    signal: new AbortController().signal,
    environment: { PATH: process.env.PATH ?? "" },
    forwardStop: true,
    write: (line) => lines.push(line),
    ...overrides,
  });
  return { context: made, lines, directory };
}

const failure = (code: string, message: RegExp) => (reason: unknown) => {
  assert.ok(reason instanceof Failure);
  assert.equal(reason.code, code);
  assert.match(reason.message, message);
  return true;
};

test("what an operation says becomes lines", async (t) => {
  const { context: c, lines } = await context(t);

  c.log("hello");
  c.progress("half", 1, 2);
  c.resource("created", "file", "a");
  c.output("url", "http://x", { sensitive: true });

  assert.deepEqual(lines, [
    { type: "log", level: "info", message: "hello" },
    { type: "progress", message: "half", done: 1, total: 2 },
    { type: "resource", action: "created", kind: "file", name: "a" },
    { type: "output", name: "url", value: "http://x", sensitive: true },
  ]);
});

test("a program's lines are logged as whole lines and its output is returned", async (t) => {
  const { context: c, lines } = await context(t);

  const ran = await c.run("sh", ["-c", "printf 'a\\nb'; cat", "x"], { input: "c\n" });

  assert.equal(ran.stdout, "a\nbc\n");
  assert.deepEqual(
    lines.map((line) => line.type === "log" && line.message),
    ["a", "bc"],
  );
});

test("a program sees the environment it is given and no more", async (t) => {
  process.env.EXCLAVE_TEST_LEAK = "leaked";
  t.after(() => delete process.env.EXCLAVE_TEST_LEAK);
  const { context: c } = await context(t);

  const { stdout } = await c.run("env", [], { environment: { GIVEN: "yes" }, echo: false });

  assert.match(stdout, /^GIVEN=yes$/m);
  assert.doesNotMatch(stdout, /leaked/);
});

test("a failing program is a failure that ends with its last words", async (t) => {
  const { context: c } = await context(t);

  const run = c.run("sh", ["-c", "echo before >&2; echo no such thing >&2; exit 3"]);

  await assert.rejects(run, failure("tool", /^sh exited with 3: no such thing$/));
  const allowed = await c.run("sh", ["-c", "exit 3"], { allowExitCodes: [0, 3] });
  assert.equal(allowed.exitCode, 3);
});

test("a missing program and a missing directory are told apart", async (t) => {
  const { context: c, directory } = await context(t);

  await assert.rejects(
    c.run("no-such-program", []),
    failure("invalid", /no program "no-such-program"/),
  );
  const cwd = join(directory, "gone");
  await assert.rejects(c.run("true", [], { cwd }), failure("invalid", /no directory/));
});

test("a stop reaches the running program as the signal it asked for", async (t) => {
  const controller = new AbortController();
  const { context: c, lines } = await context(t, {
    signal: controller.signal,
    write: (line) => {
      lines.push(line);
      if (line.type === "log" && line.message === "ready") controller.abort();
    },
  });
  const script = "trap 'echo interrupted; exit 0' INT; echo ready; while :; do sleep 0.05; done";

  const run = c.run("sh", ["-c", script], { stopSignal: "SIGINT" });

  await assert.rejects(run, failure("cancelled", /stopped while sh was at work/));
  assert.deepEqual(lines.at(-1), { type: "log", level: "info", message: "interrupted" });
});

test("a written file is the job's alone and stays inside its directory", async (t) => {
  const { context: c } = await context(t);

  const path = await c.writeFile("values/a.json", "{}");

  assert.equal(await readFile(path, "utf8"), "{}");
  assert.equal((await stat(path)).mode & 0o777, 0o600);
  await assert.rejects(c.writeFile("../escape", "x"), failure("invalid", /outside/));
  await assert.rejects(c.writeFile("/etc/escape", "x"), failure("invalid", /outside/));
});

test("a program that takes too long is stopped", async (t) => {
  const { context: c } = await context(t);

  const run = c.run("sleep", ["60"], { timeoutMs: 50 });

  await assert.rejects(run, failure("timeout", /sleep was not done after 50 ms/));
});

const CHATTY = "yes | head -c 70000000 | tr '\\n' x; echo; echo last";

test("a program that prints without end goes on, and what is kept of it is bounded", async (t) => {
  const { context: c, lines } = await context(t);

  const { stdout } = await c.run("sh", ["-c", CHATTY]);

  assert.ok(stdout.length <= 64 * 1024 ** 2);
  const messages = lines.map((line) => (line.type === "log" ? line.message : ""));
  assert.match(messages[0] ?? "", /^\[the beginning of a line of 70000000 bytes\] yx/);
  assert.equal(messages.at(-1), "last");
});

test("a program whose output is wanted as a value fails when it is too large", async (t) => {
  const { context: c } = await context(t);

  const run = c.run("sh", ["-c", CHATTY], { echo: false });

  await assert.rejects(run, failure("too_large", /sh printed more than 64 MiB/));
});

test("a program killed by a signal is killed, not a tool that failed", async (t) => {
  const { context: c } = await context(t);

  await assert.rejects(
    c.run("sh", ["-c", "kill -KILL $$"]),
    failure("killed", /^sh was killed by SIGKILL$/),
  );
});

test("a process that a program left behind with its output does not keep the job", async (t) => {
  const { context: c, lines } = await context(t);

  const { stdout } = await c.run("sh", ["-c", "sleep 300 & echo $!"]);

  process.kill(Number(stdout));
  assert.ok(lines.some((line) => line.type === "log" && /left behind/.test(line.message)));
});
