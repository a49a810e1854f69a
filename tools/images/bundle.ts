// Makes one file of a program and all it imports. The same source gives the same bytes.

import { mkdir, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { build } from "esbuild";

/** Some dependencies are CommonJS and ask for `require`, which a module does not have. */
const REQUIRE = `import { createRequire as __createRequire } from "node:module";
const require = __createRequire(import.meta.url);`;

export async function bundle(root: string, entry: string, file: string): Promise<void> {
  const { outputFiles } = await build({
    absWorkingDir: root,
    entryPoints: [entry],
    bundle: true,
    write: false,
    platform: "node",
    format: "esm",
    target: "node24",
    charset: "utf8",
    legalComments: "none",
    banner: { js: REQUIRE },
    logLevel: "error",
  });
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, outputFiles[0]?.contents ?? "");
}
