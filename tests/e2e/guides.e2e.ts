// The guides, followed literally: every `sh` block is run as it stands, every block that names a file
// (```yaml title="app/exclave.yaml") is written to it. A guide that no longer works fails here.

import assert from "node:assert/strict";
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { createWorld, ROOT, run, type World } from "./harness.ts";

for (const guide of ["first-install", "write-a-plugin", "air-gap"]) {
  test(`docs/guides/${guide}.md followed literally works`, async (t) => {
    const world = await createWorld(t);
    await world.up();
    // The directory is a clone as far as a guide can tell: the examples, and what `npm ci` brings.
    symlinkSync(join(ROOT, "node_modules"), join(world.place, "node_modules"));
    cpSync(join(ROOT, "examples"), join(world.place, "examples"), { recursive: true });
    const blocks = readBlocks(readFileSync(join(ROOT, `docs/guides/${guide}.md`), "utf8"));
    assert.ok(blocks.some(({ kind }) => kind === "sh"));

    for (const block of blocks) {
      if (block.title) {
        const file = join(world.place, block.title);
        mkdirSync(dirname(file), { recursive: true });
        writeFileSync(file, block.text, file.endsWith(".sh") ? { mode: 0o755 } : {});
      } else if (block.kind === "sh") {
        await follow(world, block.text);
      }
    }
    await world.exclave("audit", "verify");
  });
}

interface Block {
  readonly kind: string;
  readonly title: string | undefined;
  readonly text: string;
}

function readBlocks(markdown: string): Block[] {
  return [...markdown.matchAll(/^```(\w+)([^\n]*)\n([\s\S]*?)^```$/gm)].map(
    ([, kind = "", info = "", text = ""]) => ({
      kind: info.includes("skip") ? "skip" : kind,
      title: /title="([^"]+)"/.exec(info)?.[1],
      text,
    }),
  );
}

async function follow(world: World, script: string): Promise<void> {
  const shell = ["--noprofile", "--norc", "-euo", "pipefail", "-c", script];
  const result = await run("bash", shell, { cwd: world.place, env: stranger(world) });
  assert.equal(result.code, 0, `${script}\n${result.stdout}\n${result.stderr}`);
}

/** The environment of somebody who has just cloned: no program of ours is on the PATH. */
function stranger(world: World): NodeJS.ProcessEnv {
  const path = (process.env["PATH"] ?? "").split(":");
  return { ...world.env(), PATH: path.filter((part) => !part.includes("node_modules")).join(":") };
}
