// Run by npm before it packs or publishes a package, in the package's folder: compiles it, puts into it
// what it carries, and lays the published package.json over the one of the clone. postpack.ts undoes
// it all; where that was never reached, the next run begins with it.

import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { cp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join, relative, resolve } from "node:path";
import { listRecipes } from "../images/recipes.ts";
import { stageImage } from "../images/stage.ts";
import { Manifest, publishedManifest } from "./published-manifest.ts";
import { layManifest, restorePackage } from "./swap.ts";

const ROOT = resolve(import.meta.dirname, "../..");

const folder = process.cwd();
await restorePackage(folder);
execFileSync(join(ROOT, "node_modules/.bin/tsc"), ["-b"], { cwd: folder, stdio: "inherit" });
await removeStaleOutputs(folder);
const manifest = Manifest.parse(JSON.parse(await readFile(join(folder, "package.json"), "utf8")));
const carries = { image: await carryImage(), demo: await carryDemo(manifest) };
await carryPages(manifest);
await layManifest(folder, publishedManifest(manifest, carries));

/** A compiler adds and replaces, and leaves there what a renamed source once became. */
async function removeStaleOutputs(at: string): Promise<void> {
  for (const entry of await readdir(join(at, "dist"), { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const path = relative(join(at, "dist"), join(entry.parentPath, entry.name));
    const source = path.replace(/(\.d\.ts|\.js)(\.map)?$/, ".ts");
    if (!existsSync(join(at, "src", source))) await rm(join(at, "dist", path));
  }
}

async function carryImage(): Promise<boolean> {
  const here = relative(ROOT, folder);
  const recipe = (await listRecipes(ROOT)).find((one) => one.package === here);
  if (!recipe) return false;
  await stageImage(ROOT, recipe, join(folder, "image"));
  return true;
}

/** The command line brings the demo app, with the schema that its first line names. */
async function carryDemo({ name }: Manifest): Promise<boolean> {
  if (name !== "exclave") return false;
  const demo = join(folder, "demo/crm");
  await cp(join(ROOT, "examples/crm"), demo, { recursive: true });
  await cp(join(ROOT, "docs/reference/exclave.schema.json"), join(demo, "exclave.schema.json"));
  const file = join(demo, "exclave.yaml");
  const text = await readFile(file, "utf8");
  await writeFile(file, text.replace(/\$schema=\S+/, "$schema=./exclave.schema.json"));
  return true;
}

async function carryPages({ name, description }: Manifest): Promise<void> {
  await cp(join(ROOT, "LICENSE"), join(folder, "LICENSE"));
  const about =
    "Part of Exclave, which lets a vendor run its product in every customer's own account.";
  await writeFile(join(folder, "README.md"), `# ${name}\n\n${description}.\n\n${about}\n`);
}
