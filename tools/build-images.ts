// Builds the images that Exclave ships into one OCI layout: the runner, the plugins, the sandboxes.
//
//   node tools/build-images.ts [--if-needed] [--with-tools] [--out DIR]
//
// With tools, the programs that plugins run (terraform, tofu, helm, kubectl) go into their images, as they are found on
// PATH: jobs that are containers see no others.
// The result is DIR/images.json beside the layout: what there is, by digest.

import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { buildImages } from "./images/build.ts";

const { values } = parseArgs({
  options: {
    "if-needed": { type: "boolean", default: false },
    "with-tools": { type: "boolean", default: false },
    out: { type: "string" },
  },
});
const root = resolve(import.meta.dirname, "..");
const startedAt = performance.now();
const built = await buildImages({
  root,
  directory: resolve(values.out ?? `${root}/dist/images`),
  nodePath: process.execPath,
  toolPath: values["with-tools"] ? (process.env["PATH"] ?? "") : undefined,
  ifNeeded: values["if-needed"],
  log: (line) => console.error(line),
});
const seconds = ((performance.now() - startedAt) / 1_000).toFixed(1);
if (built.kind === "built") console.error(`${built.images.length} images in ${seconds} s`);
