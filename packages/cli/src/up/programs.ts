// Where the programs are that `up` runs: beside this one, in a clone as in an installed package.

import type { Home } from "../connection/home.ts";
import type { Invocation } from "../program/cli.ts";
import { programOf } from "../program/package-program.ts";
import { findImages, type ShippedImages } from "./shipped.ts";

export interface Programs {
  readonly node: string;
  readonly server: string;
  readonly agent: string;
  /** The images the build agent publishes: runner, plugins, sandboxes. */
  readonly images: ShippedImages;
}

export async function findPrograms(
  environment: Invocation["environment"],
  home: Home,
): Promise<Programs> {
  return {
    node: process.execPath,
    server: programOf("@exclave/server"),
    agent: programOf("@exclave/agent"),
    images: await findImages(environment, home),
  };
}
