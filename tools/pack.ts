// Packs every package into a tarball, as it would be published.
//
//   node tools/pack.ts [--out DIR]

import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";

const root = resolve(import.meta.dirname, "..");
const { values } = parseArgs({ options: { out: { type: "string" } } });
const out = resolve(values.out ?? join(root, "dist/packages"));

rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
execFileSync("npm", ["pack", "--workspaces", "--silent", "--pack-destination", out], {
  cwd: root,
  stdio: ["ignore", "ignore", "inherit"],
});
for (const name of readdirSync(out).toSorted()) console.log(join(out, name));
