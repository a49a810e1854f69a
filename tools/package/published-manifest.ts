// A package.json as it is published. In the clone a package's exports are its TypeScript sources, which
// Node runs as they are; below node_modules Node refuses those, so a published package exports what
// was compiled.

import { z } from "zod";

export const Manifest = z.looseObject({
  name: z.string(),
  version: z.string(),
  description: z.string(),
  exports: z.record(z.string(), z.string()),
  dependencies: z.record(z.string(), z.string()).default({}),
});
export type Manifest = z.infer<typeof Manifest>;

export type PublishedManifest = Readonly<Record<string, unknown>>;

/** Folders that are made for the package alone, if it has use for them. */
export interface Carries {
  readonly image: boolean;
  readonly demo: boolean;
}

export function publishedManifest(source: Manifest, carries: Carries): PublishedManifest {
  const { scripts: _, exports, ...rest } = source;
  const published = Object.entries(exports).filter(([key]) => isPublic(key, source));
  return {
    ...rest,
    exports: {
      ...Object.fromEntries(published.map(([key, file]) => [key, compiled(file)])),
      ...(carries.image ? { "./image.json": "./image/image.json" } : {}),
    },
    files: [
      ...("bin" in source ? ["bin"] : []),
      "dist",
      "src",
      ...(carries.image ? ["image"] : []),
      ...(carries.demo ? ["demo"] : []),
      ...forTestsOnly(source).map((pattern) => `!${pattern}`),
    ],
  };
}

/** `./testing` is for plugin authors and runtimes; what else lies in testing/ is for this repository. */
function isPublic(key: string, { exports }: Manifest): boolean {
  return key === "./testing" || !exports[key]?.startsWith("./src/testing/");
}

function forTestsOnly({ exports }: Manifest): string[] {
  const files = ["**/*.test.*", "**/*.testing.*", "**/*.e2e.*", "**/*.fixture.*"];
  return "./testing" in exports ? files : [...files, "**/testing"];
}

function compiled(file: string): { types: string; default: string } {
  const path = /^\.\/src\/(.+)\.ts$/.exec(file)?.[1];
  if (path === undefined) throw new Error(`${file} is no source of the package`);
  return { types: `./dist/${path}.d.ts`, default: `./dist/${path}.js` };
}
