import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { Manifest, publishedManifest } from "./published-manifest.ts";

const ROOT = join(import.meta.dirname, "../..");
const sources = globSync("{packages,plugins,sandboxes}/*/package.json", { cwd: ROOT }).map((path) =>
  Manifest.parse(JSON.parse(readFileSync(join(ROOT, path), "utf8"))),
);

test("what is published exports compiled files with their types, and brings no script", () => {
  const source = Manifest.parse({
    name: "@exclave/sample",
    version: "1.2.3",
    description: "A sample",
    scripts: { prepack: "true" },
    exports: { ".": "./src/index.ts", "./testing": "./src/testing/index.ts" },
  });

  const published = publishedManifest(source, { image: true, demo: false });

  assert.equal("scripts" in published, false);
  assert.deepEqual(published["exports"], {
    ".": { types: "./dist/index.d.ts", default: "./dist/index.js" },
    "./testing": { types: "./dist/testing/index.d.ts", default: "./dist/testing/index.js" },
    "./image.json": "./image/image.json",
  });
  const forTests = ["!**/*.test.*", "!**/*.testing.*", "!**/*.e2e.*", "!**/*.fixture.*"];
  assert.deepEqual(published["files"], ["dist", "src", "image", ...forTests]);
});

test("what only the repository's own tests need is not published", () => {
  const source = Manifest.parse({
    name: "@exclave/sample",
    version: "1.2.3",
    description: "A sample",
    exports: { ".": "./src/index.ts", "./simulation": "./src/testing/simulation.ts" },
  });

  const { exports, files } = publishedManifest(source, { image: false, demo: false });

  assert.deepEqual(Object.keys(exports as object), ["."]);
  assert.ok((files as string[]).includes("!**/testing"));
});

test("all packages have one version and depend on each other at exactly that version", () => {
  const [{ version } = { version: "" }] = sources;
  const ours = new Set(sources.map(({ name }) => name));
  assert.ok(ours.size > 10);

  for (const { name, version: own, dependencies } of sources) {
    assert.equal(own, version, name);
    for (const [dependency, wanted] of Object.entries(dependencies)) {
      if (ours.has(dependency)) assert.equal(wanted, version, `${name} wants ${dependency}`);
      else assert.match(wanted, /^\d+\.\d+\.\d+$/, `${name} pins ${dependency}`);
    }
  }
});

test("every package says what a registry shows, and is made ready by npm pack itself", () => {
  for (const source of sources) {
    const { name, description } = source;
    assert.ok(description.length > 10, `${name} has a description`);
    assert.equal(source["license"], "Apache-2.0", name);
    assert.deepEqual(source["engines"], { node: ">=24" }, name);
    assert.deepEqual(source["publishConfig"], { access: "public" }, name);
    const { prepack, postpack } = source["scripts"] as Record<string, string>;
    assert.equal(prepack, "node ../../tools/package/prepack.ts", name);
    assert.equal(postpack, "node ../../tools/package/postpack.ts", name);
  }
});

// They are told apart by it on the link and in `exclave agent list`.
test("server and agent say the version of their packages", () => {
  const [{ version } = { version: "" }] = sources;
  const programs = {
    "packages/server/src/server.ts": `SERVER_VERSION = "${version}"`,
    "packages/agent/src/main.ts": `VERSION = "${version}"`,
  };

  for (const [path, said] of Object.entries(programs)) {
    assert.ok(readFileSync(join(ROOT, path), "utf8").includes(said), `${path}: ${said}`);
  }
});
