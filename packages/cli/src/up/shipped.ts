// What this program was shipped with, beside its own code: the images of runner, plugins and sandboxes,
// and the demo app. In a clone both lie in the repository. An installed package depends on packages
// that carry their image as a folder; the images are packed at the first start, with the Node that runs
// it, and again when package or Node changed.

import { access, cp, readFile } from "node:fs/promises";
import { dirname, extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import type { Home } from "../connection/home.ts";
import type { Invocation } from "../program/cli.ts";
import { plainEnvironment, programOf, runProgram } from "../program/package-program.ts";
import { CliProblem } from "../program/problem.ts";

export type ShippedImages =
  /** Packed already. */
  | { readonly kind: "layout"; readonly directory: string }
  | { readonly kind: "folders"; readonly folders: readonly string[]; readonly directory: string };

const PACKAGE = new URL("../..", import.meta.url);
const isClone = extname(import.meta.filename) === ".ts";

export async function findImages(
  environment: Invocation["environment"],
  home: Home,
): Promise<ShippedImages> {
  const given = environment.EXCLAVE_IMAGES;
  if (given === undefined && !isClone) {
    return { kind: "folders", folders: await imageFolders(), directory: home.imagesDirectory };
  }
  const directory = given ?? fileURLToPath(new URL("../../dist/images", PACKAGE));
  if (await isThere(join(directory, "images.json"))) return { kind: "layout", directory };
  throw new CliProblem("usage", `the images of the component types are not in ${directory}`, {
    hint: "make them with `npm run build:images`",
  });
}

/** The layout's directory. To be called under the lock of `up`: two at once would spoil each other. */
export async function provideImages(
  invocation: Invocation,
  images: ShippedImages,
  say: (line: string) => void,
): Promise<string> {
  if (images.kind === "layout") return images.directory;
  const { directory, folders } = images;
  const code = await runProgram(invocation, {
    program: programOf("@exclave/oci", "programs/images-main"),
    args: ["--out", directory, "--node", process.execPath, ...folders],
    environment: plainEnvironment(invocation.environment),
    onLine: (line) => say(`images  ${line}`),
  });
  invocation.signal.throwIfAborted();
  if (code === 0) return directory;
  throw new CliProblem("failed", "the images of the component types cannot be packed", {
    hint: `the reason stands above; they go to ${directory}`,
  });
}

/** A package's own folder is not for editing: what is released there is a copy that is. */
export async function provideDemoApp(home: Home): Promise<string> {
  if (isClone) return fileURLToPath(new URL("../../examples/crm", PACKAGE));
  const directory = join(home.directory, "demo", "crm");
  if (!(await isThere(join(directory, "exclave.yaml")))) {
    await cp(new URL("demo/crm", PACKAGE), directory, { recursive: true });
  }
  return directory;
}

const Package = z.object({ dependencies: z.record(z.string(), z.string()) });

/** Every dependency that says it carries an image. */
async function imageFolders(): Promise<string[]> {
  const text = await readFile(new URL("package.json", PACKAGE), "utf8");
  const { dependencies } = Package.parse(JSON.parse(text));
  return Object.keys(dependencies).flatMap((name) => {
    try {
      return [dirname(fileURLToPath(import.meta.resolve(`${name}/image.json`)))];
    } catch {
      return [];
    }
  });
}

async function isThere(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
