import assert from "node:assert/strict";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { keepModules } from "./bundled-modules.ts";

test("the list of modules is the same in whichever order the tool wrote it", async (t) => {
  const place = await mkdtemp(join(tmpdir(), "exclave-modules-"));
  t.after(() => rm(place, { recursive: true, force: true }));
  const local = (Key: string) => ({ Key, Source: `./${Key}`, Dir: Key });
  const kept = async (Modules: readonly unknown[]) => {
    await mkdir(join(place, "data/modules"), { recursive: true });
    await writeFile(join(place, "data/modules/modules.json"), JSON.stringify({ Modules }));
    await keepModules(join(place, "data"), join(place, "module"));
    return readFile(join(place, "module/.exclave/modules/modules.json"), "utf8");
  };

  const one = await kept([local("b"), local("a"), local("")]);
  const other = await kept([local(""), local("b"), local("a")]);

  assert.equal(one, other);
});
