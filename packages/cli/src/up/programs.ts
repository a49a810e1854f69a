// Where the programs are that `up` runs: beside this one, in a clone as in an installed package.

import { access } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { programOf } from "../program/package-program.ts";
import { CliProblem } from "../program/problem.ts";

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
    server: programOf("@exclave/server"),
    agent: programOf("@exclave/agent"),
    images,
    demoApp: join(root, "examples", "crm"),
  };
}

async function isThere(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
