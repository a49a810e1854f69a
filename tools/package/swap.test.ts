import assert from "node:assert/strict";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { layManifest, restorePackage } from "./swap.ts";

const SOURCE = '{ "exports": "./src/index.ts" }\n';

test("what packing put into a package's folder is gone after it, and package.json as it was", async (t) => {
  const folder = await packageFolder(t);
  await mkdir(join(folder, "image"));
  await writeFile(join(folder, "LICENSE"), "");

  await layManifest(folder, { exports: "./dist/index.js" });
  assert.match(await readFile(join(folder, "package.json"), "utf8"), /dist/);
  await restorePackage(folder);

  assert.equal(await readFile(join(folder, "package.json"), "utf8"), SOURCE);
  assert.deepEqual(await readdir(folder), ["package.json"]);
});

test("a run that was killed is undone by the next, and one that never began changes nothing", async (t) => {
  const folder = await packageFolder(t);
  await restorePackage(folder);
  await layManifest(folder, { exports: "./dist/index.js" });

  // Killed here. The next begins like this, and lays its own over what is the clone's again.
  await restorePackage(folder);
  await layManifest(folder, { exports: "./dist/index.js" });
  await restorePackage(folder);

  assert.equal(await readFile(join(folder, "package.json"), "utf8"), SOURCE);
});

async function packageFolder(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "exclave-package-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  await writeFile(join(folder, "package.json"), SOURCE);
  return folder;
}
