import assert from "node:assert/strict";
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { createApiDouble } from "../testing/api-double.ts";
import { createBench } from "../testing/run-cli.ts";

const JOIN = "a-join-string";
const EXPIRES = "2026-11-18T02:30:00.000Z";

test("a join string is printed alone, so that it can be piped, with its end on stderr", async (t) => {
  const double = await createApiDouble(t, {
    createJoin: () => ({ joinString: JOIN, expiresAt: EXPIRES }),
  });
  const bench = await createBench(t, double);

  const { stdout, stderr, exitCode } = await bench.run(["agent", "join", "build"]);

  assert.equal(exitCode, 0);
  assert.equal(stdout, `${JOIN}\n`);
  assert.match(stderr, /works once, until/);
  assert.deepEqual(double.asked[0]?.request.body, { kind: "build" });
});

test("a join string goes into a file that its owner alone can read, and is not shown then", async (t) => {
  const double = await createApiDouble(t, {
    createJoin: () => ({ joinString: JOIN, expiresAt: EXPIRES }),
  });
  const bench = await createBench(t, double);

  const { stdout, stderr } = await bench.run(["agent", "join", "setup", "--out", "join"]);

  const file = join(bench.directory, "join");
  assert.equal(await readFile(file, "utf8"), `${JOIN}\n`);
  assert.equal((await stat(file)).mode & 0o077, 0);
  assert.ok(!(stdout + stderr).includes(JOIN));
});

test("install agents are not the vendor's to start", async (t) => {
  const bench = await createBench(t);

  const joined = await bench.run(["agent", "join", "install"]);
  const ran = await bench.run(["agent", "run", "install", "--home", "here"]);

  assert.notEqual(joined.exitCode, 0);
  assert.match(ran.stderr, /build, setup/);
});

test("an agent that cannot start says why, and its code is the command's", async (t) => {
  const bench = await createBench(t);

  const { exitCode, stderr } = await bench.run(["agent", "run", "build", "--home", "here"]);

  assert.notEqual(exitCode, 0);
  assert.match(stderr, /join/);
});
