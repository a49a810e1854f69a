// The guides, followed literally: every `sh` block is run as it stands, every block that names a file
// (```yaml title="app/exclave.yaml") is written to it. A guide that no longer works fails here.

import assert from "node:assert/strict";
import { cpSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { createWorld, ROOT, run, type World } from "../testing/harness.ts";

/** One after the other in the same place: what a guide leaves behind, the next has to live with. */
const WALKS = [["first-install", "air-gap"], ["write-a-plugin"]];

const PAGE = "examples/crm/web/page.mjs";

for (const guides of WALKS) {
  test(`${guides.join(", then ")}: followed literally, it works`, async (t) => {
    const world = await createWorld(t);
    await world.up();
    // The directory is a clone as far as a guide can tell: the examples, and what `npm ci` brings.
    symlinkSync(join(ROOT, "node_modules"), join(world.place, "node_modules"));
    cpSync(join(ROOT, "examples"), join(world.place, "examples"), { recursive: true });
    for (const guide of guides) {
      await t.test(`docs/guides/${guide}.md`, () => followGuide(world, guide));
    }
    await world.exclave("audit", "verify");
  });
}

async function followGuide(world: World, guide: string): Promise<void> {
  const text = readFileSync(join(ROOT, `docs/guides/${guide}.md`), "utf8");
  const blocks = readBlocks(text);
  assert.ok(blocks.some(({ kind }) => kind === "sh"));
  const files = () => readdirSync(join(world.place, "examples"), { recursive: true }).toSorted();
  const before = { files: files(), accent: accent(world) };

  for (const block of blocks) {
    if (block.title) {
      const file = join(world.place, block.title);
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, block.text, file.endsWith(".sh") ? { mode: 0o755 } : {});
    } else if (block.kind === "sh") {
      await follow(world, block.text);
    }
  }

  assert.deepEqual(files(), before.files, "whatever lies in a component's source is shipped");
  if (text.includes(PAGE)) assert.notEqual(accent(world), before.accent, "the page has its colour");
}

function accent(world: World): string | undefined {
  return /ACCENT = "(.*)"/.exec(world.read(PAGE))?.[1];
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
