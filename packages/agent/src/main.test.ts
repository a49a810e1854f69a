import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { temporaryDirectory } from "./testing/temporary-directory.ts";

const MAIN = fileURLToPath(new URL("./main.ts", import.meta.url));

function run(...args: string[]): Promise<{ code: number; stderr: string }> {
  return new Promise((resolve) => {
    execFile(process.execPath, [MAIN, ...args], (reason, _, stderr) => {
      resolve({ code: typeof reason?.code === "number" ? reason.code : 0, stderr });
    });
  });
}

test("a join string comes from standard input or a file, and never from an argument", async (t) => {
  const home = await temporaryDirectory(t);

  const answer = await new Promise<string>((resolve) => {
    const args = [MAIN, "build", "--home", home, "--join-file", "-"];
    const child = execFile(process.execPath, args, (_reason, _, stderr) => resolve(stderr));
    child.stdin?.end("no join string, but read");
  });

  assert.match(answer, /this is not a join string/);
});

test("an install agent without its trust document waits for setup, and ends for nothing less", async (t) => {
  const home = await temporaryDirectory(t);
  await mkdir(join(home, "agent"));
  const identity = {
    version: 1,
    agent: "aaaaaaaaaaaaaaaaa",
    kind: "install",
    audience: "iacmeaaaaaaaaaaaa",
    keyGeneration: 1,
    serverUrl: "http://127.0.0.1:9",
    identityKey: "",
    sealingKey: "",
  };
  await writeFile(join(home, "agent", "identity.json"), JSON.stringify(identity));

  const child = spawn(process.execPath, [MAIN, "install", "--home", home]);
  t.after(() => child.kill("SIGKILL"));
  let said = "";
  for await (const chunk of child.stderr) {
    said += String(chunk);
    if (said.includes("leaves one")) break;
  }

  assert.match(said, /trust\.json is missing: this agent does not know whom to trust/);
  assert.match(said, /`exclave install setup NAME` leaves one/);
  assert.equal(child.exitCode, null);
});

test("wrong use ends with one sentence and a code that is not zero", async (t) => {
  const home = await temporaryDirectory(t);
  await writeFile(join(home, "join"), "no join string");
  const empty = join(home, "empty");

  const answers = await Promise.all([
    run("--home", home),
    run("install"),
    run("build", "--home", home, "--log-level", "loud"),
    run("build", "--home", empty),
    run("build", "--home", home),
    run("build", "--home", home, "--join", "exclave-join-v1.secret"),
  ]);

  assert.deepEqual(
    answers.map(({ code }) => code),
    [1, 1, 1, 1, 1, 1],
  );
  const sentences = answers.map(({ stderr }) => stderr.trim());
  assert.match(sentences[0] ?? "", /build, setup or install/);
  assert.match(sentences[1] ?? "", /--home/);
  assert.match(sentences[2] ?? "", /loud is no log level/);
  assert.match(sentences[3] ?? "", /has not joined a server/);
  assert.match(sentences[4] ?? "", /not a join string/);
  assert.match(sentences[5] ?? "", /--join/);
  for (const sentence of sentences) assert.equal(sentence.split("\n").length, 1);
});
