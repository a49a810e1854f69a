import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { test } from "node:test";
import { promisify } from "node:util";
import { createBench } from "../testing/run-cli.ts";

const run = promisify(execFile);

async function completed(script: string, words: readonly string[]): Promise<string[]> {
  const line = words.map((word) => `'${word}'`).join(" ");
  const ask = `${script}\nCOMP_WORDS=(exclave ${line}); COMP_CWORD=${words.length}; _exclave; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const { stdout } = await run("bash", ["--norc", "-c", ask]);
  return stdout.split("\n").filter((word) => word !== "");
}

test("bash completes commands, their verbs, options and choices", async (t) => {
  const bench = await createBench(t);
  const { stdout: script } = await bench.run(["completion", "bash"]);

  assert.deepEqual(await completed(script, ["ins"]), ["install"]);
  assert.deepEqual(await completed(script, ["install", "de"]), ["deploy", "destroy"]);
  assert.deepEqual(await completed(script, ["installs", "deploy", "--allow"]), ["--allow-destroy"]);
  assert.deepEqual(await completed(script, ["job", "list", "-o", "j"]), ["json"]);
  assert.deepEqual(await completed(script, ["-o", "json", "audit", "v"]), ["verify"]);
});

test("zsh and fish get scripts that know every command", async (t) => {
  const bench = await createBench(t);
  const [zsh, fish] = await Promise.all([
    bench.run(["completion", "zsh"]),
    bench.run(["completion", "fish"]),
  ]);

  assert.match(zsh.stdout, /^#compdef exclave/);
  assert.match(fish.stdout, /__fish_use_subcommand' -a install -d/);
  assert.match(fish.stdout, /__fish_seen_subcommand_from install; .*-a deploy -d/);
});
