// What the images are made from, as one digest: when it is unchanged, so are they.

import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { stampBase, stampTools } from "@exclave/oci/images";
import { ALL_TOOLS } from "./recipes.ts";

const FOLDERS = ["packages", "plugins", "sandboxes"];

export async function digestInputs(
  root: string,
  nodePath: string,
  toolPath: string | undefined,
): Promise<string> {
  const hash = createHash("sha256");
  for (const path of inputFiles(root)) {
    hash
      .update(`${path}\0`)
      .update(readFileSync(join(root, path)))
      .update("\0");
  }
  if (toolPath !== undefined) hash.update(await stampTools(ALL_TOOLS, toolPath));
  return hash.update(await stampBase(nodePath)).digest("hex");
}

function inputFiles(root: string): string[] {
  const sources = FOLDERS.flatMap((folder) =>
    readdirSync(join(root, folder)).flatMap((name) => filesBelow(root, `${folder}/${name}/src`)),
  );
  return [
    "package-lock.json",
    "tools/build-images.ts",
    ...filesBelow(root, "tools/images"),
    ...sources,
  ].toSorted();
}

function filesBelow(root: string, folder: string): string[] {
  let entries: import("node:fs").Dirent[];
  try {
    entries = readdirSync(join(root, folder), { recursive: true, withFileTypes: true });
  } catch {
    return [];
  }
  return entries
    .filter((entry) => entry.isFile() && !entry.name.endsWith(".test.ts"))
    .map((entry) => join(entry.parentPath, entry.name).slice(root.length + 1));
}
