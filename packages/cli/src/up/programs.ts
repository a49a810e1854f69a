// Where the programs are that `up` runs: beside this one, in a clone as in an installed package.

import { access } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { CliProblem } from "../problem.ts";

export interface Programs {
  readonly node: string;
  readonly server: string;
  readonly agent: string;
  /** The images the build agent publishes: runner, plugins, sandboxes. */
  readonly images: string;
  readonly demoApp: string;
}

export async function findPrograms(
  environment: Readonly<Record<string, string | undefined>>,
): Promise<Programs> {
  const root = fileURLToPath(new URL("../../../..", import.meta.url));
  const images = environment.EXCLAVE_IMAGES ?? join(root, "dist", "images");
  if (!(await isThere(join(images, "images.json")))) {
    throw new CliProblem("usage", `the images of the component types are not in ${images}`, {
      hint: "make them with `npm run build:images`",
    });
  }
  return {
    node: process.execPath,
    server: mainOf("@exclave/server"),
    agent: mainOf("@exclave/agent"),
    images,
    demoApp: join(root, "examples", "crm"),
  };
}

/** A package's program lies beside its index, as `.ts` in a clone and as `.js` when built. */
function mainOf(packageName: string): string {
  const index = fileURLToPath(import.meta.resolve(packageName));
  return index.replace(/index(\.[a-z]+)$/, "main$1");
}

async function isThere(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
