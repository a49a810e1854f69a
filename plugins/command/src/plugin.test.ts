import assert from "node:assert/strict";
import { chmod, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import type { Failure } from "@exclave/plugin-sdk";
import { createTestContext } from "@exclave/plugin-sdk/testing";
import { plugin } from "./plugin.ts";

async function component(t: TestContext, config: Record<string, unknown>, script = "") {
  const context = await createTestContext(plugin, { config });
  t.after(() => rm(context.directory, { recursive: true, force: true }));
  const path = join(context.files, "run.sh");
  await writeFile(path, `#!/bin/sh\n${script}\n`);
  await chmod(path, 0o755);
  return context;
}

const APPLY = { apply: ["./run.sh", "hello"] };

test("apply runs the program from the artifact with its arguments and environment", async (t) => {
  const config = { ...APPLY, environment: { NAME: "Ada", PORT: 80 } };
  const { run } = await component(t, config, 'echo "$1 $NAME $PORT $EXCLAVE_COMPONENT"');

  assert.deepEqual((await run("apply")).logs, ["hello Ada 80 component"]);
});

test("apply reports what the program leaves as outputs, and hides what it asks to hide", async (t) => {
  const outputs = { url: "http://x", key: { value: "k", sensitive: true } };
  const { run } = await component(
    t,
    APPLY,
    `echo '${JSON.stringify(outputs)}' > "$EXCLAVE_OUTPUTS"`,
  );

  const { lines } = await run("apply");

  assert.deepEqual(
    lines.filter(({ type }) => type === "output"),
    [
      { type: "output", name: "url", value: "http://x", sensitive: false },
      { type: "output", name: "key", value: "k", sensitive: true },
    ],
  );
});

test("outputs that are not a JSON object fail the apply", async (t) => {
  const { run } = await component(t, APPLY, 'echo nonsense > "$EXCLAVE_OUTPUTS"');

  await assert.rejects(run("apply"), /not a JSON object/);
});

test("a failing apply says why, is not applied, and its output is kept for logs", async (t) => {
  const { run } = await component(t, APPLY, "echo about to; echo cannot >&2; exit 2");

  await assert.rejects(run("apply"), (reason: Failure) => {
    assert.equal(reason.code, "tool");
    assert.match(reason.message, /exited with 2: cannot/);
    return true;
  });
  assert.deepEqual((await run("logs")).logs.toSorted(), ["about to", "cannot"]);
  assert.equal((await run("status")).status?.health, "missing");
});

test("a program that is not in the artifact is named", async (t) => {
  const { run } = await component(t, { apply: ["./gone.sh"] });

  await assert.rejects(run("apply"), /no program ".\/gone.sh"/);
});

test("a program over its time is stopped", async (t) => {
  const { run } = await component(t, { ...APPLY, timeoutSeconds: 1 }, "exec sleep 60");

  await assert.rejects(run("apply"), /not done after 1000 ms/);
});

test("status is healthy after an apply, missing before it and after a destroy", async (t) => {
  const { run } = await component(t, APPLY);
  const health = async () => (await run("status")).status?.health;

  assert.equal(await health(), "missing");
  await run("apply");
  assert.equal(await health(), "healthy");
  await run("destroy");
  assert.equal(await health(), "missing");
});

test("a status command decides, and its last line is the reason", async (t) => {
  const config = {
    ...APPLY,
    status: ["sh", "-c", 'test -e "$EXCLAVE_DATA_DIR/ok" || { echo no ok file; exit 1; }'],
  };
  const { run, stateDirectory } = await component(t, config);
  await run("apply");

  assert.deepEqual((await run("status")).status, { health: "degraded", because: "no ok file" });
  await writeFile(join(stateDirectory, "ok"), "");
  assert.equal((await run("status")).status?.health, "healthy");
});

test("destroy runs its command with the state that apply left", async (t) => {
  const config = {
    apply: ["sh", "-c", 'echo 1 > "$EXCLAVE_DATA_DIR/made"'],
    destroy: ["sh", "-c", 'rm "$EXCLAVE_DATA_DIR/made"'],
  };
  const { run, stateDirectory } = await component(t, config);

  await run("apply");
  await run("destroy");

  await assert.rejects(readFile(join(stateDirectory, "made")));
});

test("logs gives the tail that is asked for", async (t) => {
  const { run } = await component(t, APPLY, "echo a; echo b; echo c");
  await run("apply");

  assert.deepEqual((await run("logs", { parameters: { tailLines: 2 } })).logs, ["b", "c"]);
});

test("exec runs any command in the files and passes its exit code on", async (t) => {
  const { run } = await component(t, APPLY);

  const { exitCode, logs } = await run("exec", {
    parameters: { command: ["sh", "-c", "ls; exit 4"] },
  });

  assert.equal(exitCode, 4);
  assert.deepEqual(logs, ["run.sh"]);
  await assert.rejects(run("exec", { parameters: {} }), /needs a command/);
});

test("build runs its command in the source and keeps what is included", async (t) => {
  const config = { build: ["sh", "-c", "mkdir out; echo hi > out/a"], include: ["out", "run.sh"] };
  const { run } = await component(t, config);

  const { build } = await run("build");

  assert.ok(build?.kind === "files");
  assert.equal(await readFile(join(build.directory, "out/a"), "utf8"), "hi\n");
  await assert.rejects(readFile(join(build.directory, "plugin.ts")));
  await assert.rejects(run("build", { config: { include: ["../x"] } }), /outside the source/);
  await assert.rejects(run("build", { config: { include: ["gone"] } }), /there is no "gone"/);
});
