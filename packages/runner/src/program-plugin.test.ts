import assert from "node:assert/strict";
import { chmod, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { fileURLToPath } from "node:url";
import type { JobDocument } from "@exclave/core";
import { createJobFixture, serveSource } from "./testing/job-fixture.ts";

const EXAMPLE = fileURLToPath(new URL("../../../examples/plugin-in-shell/", import.meta.url));

async function program(t: TestContext, script: string) {
  const fixture = await createJobFixture(t);
  const operations = ["build", "plan", "apply", "status"].map((name) => [
    name,
    { effect: "idempotent" },
  ]);
  await fixture.addPluginFile(
    "plugin.json",
    JSON.stringify({
      version: 1,
      type: "sample",
      run: ["./plugin.sh"],
      operations: Object.fromEntries(operations),
      configSchema: {},
      outputs: "open",
    }),
  );
  const path = join(fixture.directory, "plugin/plugin.sh");
  await writeFile(path, `#!/bin/sh\n${script}\n`);
  await chmod(path, 0o755);
  return fixture;
}

test("the plugin in shell goes all the way: build, apply, status, destroy", async (t) => {
  const fixture = await createJobFixture(t);
  await fixture.copyPlugin(join(EXAMPLE, "plugin"));
  const notice = await readFile(join(EXAMPLE, "notice/notice.txt"), "utf8");
  const config = { title: 'Welcome to "acme" & co', owner: "Ada|Bob" };

  const built = await fixture.run({
    operation: "build",
    source: await serveSource(t, { "notice.txt": notice }),
    pushTo: { url: fixture.registryUrl, repository: "apps/notices/welcome" },
  });
  const artifact = built.lines.find((line) => line.type === "artifact");
  assert.ok(artifact);
  const job = (operation: JobDocument["operation"]) => fixture.run({ operation, artifact, config });

  assert.equal((await job("status")).result.health, "missing");
  const applied = await job("apply");
  const outputs = applied.lines.filter((line) => line.type === "output");
  assert.deepEqual(
    outputs.map(({ name }) => name),
    ["path", "lines"],
  );
  const path = String(outputs[0]?.value);
  assert.equal(
    await readFile(path, "utf8"),
    'Welcome to "acme" & co\n\nThis machine belongs to Ada|Bob.\n',
  );
  assert.equal((await job("status")).result.health, "healthy");
  await writeFile(path, "scribbled over");
  assert.deepEqual((await job("status")).result, {
    type: "result",
    ok: true,
    health: "degraded",
    because: "somebody changed the message",
  });
  await job("destroy");
  assert.equal((await job("status")).result.health, "missing");
});

test("the plugin in shell says what is wrong with a source", async (t) => {
  const fixture = await createJobFixture(t);
  await fixture.copyPlugin(join(EXAMPLE, "plugin"));

  const { result } = await fixture.run({
    operation: "build",
    source: await serveSource(t, { "other.txt": "" }),
  });

  assert.deepEqual(result.failure, { code: "invalid", message: "the source has no notice.txt" });
});

test("a program that fails without a word is the plugin's failure", async (t) => {
  const fixture = await program(t, "echo trying; exit 4");

  const { result, lines } = await fixture.run({});

  assert.deepEqual(lines[0], { type: "log", level: "info", message: "trying" });
  assert.deepEqual(result.failure, {
    code: "plugin",
    message: "the plugin sample exited with 4 during apply",
  });
});

test("a good word before a bad exit does not count", async (t) => {
  const fixture = await program(t, `echo '{"type":"result","ok":true}'; exit 1`);

  assert.equal((await fixture.run({})).result.failure?.code, "plugin");
});

test("a good exit needs no word, and only one result leaves the job", async (t) => {
  const quiet = await program(t, "exit 0");
  const chatty = await program(
    t,
    `echo '{"type":"result","ok":true}'; echo '{"type":"result","ok":false}'`,
  );

  assert.deepEqual((await quiet.run({})).result, { type: "result", ok: true });
  const { lines, result } = await chatty.run({});
  assert.equal(result.ok, true);
  assert.equal(lines.filter(({ type }) => type === "result").length, 1);
});

test("lines that are not of the contract are shown as text", async (t) => {
  const fixture = await program(t, `echo '{"type":"output"}'; echo '{"type":'; echo '{"a":1}'`);

  const { lines } = await fixture.run({});

  assert.deepEqual(
    lines.map((line) => line.type === "log" && line.message),
    ['{"type":"output"}', '{"type":', '{"a":1}', false],
  );
});

test("a program's plan is hashed and kept by the runner, and comes back to its apply", async (t) => {
  const fixture = await program(
    t,
    `case "$EXCLAVE_OPERATION" in
      plan) printf 'do it' > "$EXCLAVE_WORK_DIR/plan"
            echo '{"type":"result","ok":true,"plan":{"risk":"replace","summary":"1 to replace"}}' ;;
      apply) cat "$(cat "$EXCLAVE_PARAMETERS_DIR/planFile")" ;;
    esac`,
  );

  const { result } = await fixture.run({ operation: "plan" });
  const applied = await fixture.run({ parameters: { plan: result.plan?.digest } });

  assert.equal(result.plan?.risk, "replace");
  assert.deepEqual(applied.lines[0], { type: "log", level: "info", message: "do it" });
});

test("a build that leaves nothing, and a program that is not there, are named", async (t) => {
  const empty = await program(t, "exit 0");
  const missing = await createJobFixture(t);
  await missing.addPluginFile(
    "plugin.json",
    JSON.stringify({
      version: 1,
      type: "sample",
      run: ["./gone.sh"],
      operations: { apply: { effect: "idempotent" } },
      configSchema: {},
      outputs: {},
    }),
  );

  const build = await empty.run({ operation: "build" });
  const apply = await missing.run({});
  const unknown = await missing.run({ operation: "destroy" });

  assert.match(build.result.failure?.message ?? "", /left nothing in \$EXCLAVE_WORK_DIR\/build/);
  assert.match(
    apply.result.failure?.message ?? "",
    /cannot run .\/gone.sh of the plugin sample: ENOENT/,
  );
  assert.match(unknown.result.failure?.message ?? "", /has no destroy; it offers apply/);
});

test("what was built is the runner's to say, whatever a program prints", async (t) => {
  const claim = JSON.stringify({
    type: "artifact",
    name: "x",
    repository: "apps/other/one",
    digest: `sha256:${"a".repeat(64)}`,
  });
  const fixture = await program(
    t,
    `echo '${claim}'; mkdir -p "$EXCLAVE_WORK_DIR/build"; echo hello > "$EXCLAVE_WORK_DIR/build/file"; echo '{"type":"result","ok":true}'`,
  );

  const { lines } = await fixture.run({
    operation: "build",
    source: await serveSource(t, { "file.txt": "x" }),
    pushTo: { url: fixture.registryUrl, repository: "apps/crm/api" },
  });

  const artifacts = lines.flatMap((line) => (line.type === "artifact" ? [line.repository] : []));
  assert.deepEqual(artifacts, ["apps/crm/api"]);
  assert.ok(lines.some((line) => line.type === "log" && line.message === claim));
});

test("a sensitive output over its limit fails the job, and nothing of it is printed", async (t) => {
  const fixture = await program(
    t,
    `printf '{"type":"output","name":"key","sensitive":true,"value":"topsecret'
     head -c 5000000 /dev/zero | tr '\\0' x
     echo '"}'`,
  );

  const { result, text } = await fixture.run({});

  assert.equal(result.failure?.code, "too_large");
  assert.match(result.failure?.message ?? "", /a message of 50000[0-9]{2} bytes/);
  assert.ok(!text.includes("topsecret") && !text.includes("xxxxxx"));
});

test("a line without an end is cut, a log over its limit has a gap, and the job goes on", async (t) => {
  const fixture = await program(
    t,
    `head -c 30000000 /dev/zero | tr '\\0' x; echo
     yes 'a line of the log' | head -n 100000
     echo '{"type":"output","name":"done","value":1}'`,
  );

  const { result, lines, text } = await fixture.run({ limits: { logBytesMax: 100_000 } });

  assert.deepEqual(result, { type: "result", ok: true });
  assert.ok(text.length < 200_000, `${text.length} bytes were written`);
  const logs = lines.flatMap((line) => (line.type === "log" ? [line.message] : []));
  assert.match(logs[0] ?? "", /^\[the beginning of a line of 30000000 bytes\] x+/);
  assert.ok(logs.some((message) => /over its limit of 100000 bytes/.test(message)));
  assert.match(logs.at(-1) ?? "", /^\[[0-9]+ bytes of log were left out\]$/);
  assert.ok(lines.some((line) => line.type === "output" && line.value === 1));
});

test("a secret at the edge of a line that is cut is not shown in part", async (t) => {
  const secret = "hunter22-is-long";
  const fixture = await program(
    t,
    `head -c 16330 /dev/zero | tr '\\0' y; printf ${secret}; head -c 5000000 /dev/zero | tr '\\0' z; echo`,
  );

  const { text } = await fixture.run({ secrets: [secret] });

  assert.ok(!text.includes("hunter"), text.slice(-200));
});

test("a program killed by a signal is reported as killed, one that crashed as the plugin's failure", async (t) => {
  const killed = await program(t, "kill -KILL $$");
  const crashed = await program(t, "kill -SEGV $$");

  assert.deepEqual((await killed.run({})).result.failure, {
    code: "killed",
    message: "the plugin sample was killed by SIGKILL",
  });
  assert.equal((await crashed.run({})).result.failure?.code, "plugin");
});

test("a child that keeps the output open does not keep the job", async (t) => {
  const fixture = await program(t, `sleep 300 & echo "$!" > "$EXCLAVE_STATE_DIR/pid"; echo said`);
  const startedAt = performance.now();

  const { result, lines } = await fixture.run({});

  process.kill(Number(await readFile(join(fixture.stateDirectory, "pid"), "utf8")));
  assert.deepEqual(result, { type: "result", ok: true });
  assert.ok(performance.now() - startedAt < 60_000);
  assert.ok(
    lines.some((line) => line.type === "log" && /still holds its output/.test(line.message)),
  );
});
