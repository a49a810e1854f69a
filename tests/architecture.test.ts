// The shape of the repository, checked. Each rule says what it protects; to change a rule is to
// change the architecture, so do it in a commit of its own with a decision record beside it.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { globSync, readdirSync, readFileSync } from "node:fs";
import { builtinModules } from "node:module";
import { dirname, join, relative } from "node:path";
import { test } from "node:test";

const ROOT = join(import.meta.dirname, "..");

/** What every program may stand on: decisions, and the few things all of them ask of a machine. */
const GROUND = ["@exclave/core", "@exclave/machine"];

/** Who may import whom. Three floors; a package sees only the floors below its own. */
const ALLOWED: Readonly<Record<string, readonly string[]>> = {
  "@exclave/core": [],
  "@exclave/machine": ["@exclave/core"],

  "@exclave/api": ["@exclave/core"],
  "@exclave/oci": [...GROUND],
  "@exclave/runtime": [...GROUND],
  "@exclave/plugin-sdk": [...GROUND],

  "@exclave/server": [...GROUND, "@exclave/api", "@exclave/oci"],
  "@exclave/agent": [...GROUND, "@exclave/api", "@exclave/oci", "@exclave/runtime"],
  "@exclave/runner": [...GROUND, "@exclave/oci", "@exclave/plugin-sdk"],
  exclave: [...GROUND, "@exclave/api"],

  "@exclave/plugin-command": ["@exclave/plugin-sdk"],
  "@exclave/plugin-helm": ["@exclave/plugin-sdk"],
  "@exclave/plugin-image": ["@exclave/plugin-sdk"],
  "@exclave/plugin-kubernetes": ["@exclave/plugin-sdk"],
  "@exclave/plugin-service": ["@exclave/plugin-sdk"],
  "@exclave/plugin-terraform": ["@exclave/plugin-sdk"],
  "@exclave/sandbox-local": ["@exclave/plugin-sdk"],
  "@exclave/sandbox-podman": ["@exclave/plugin-sdk"],
};

/** Programs and images a package starts or hands on and never imports; it ships with them, so it declares them. */
const SHIPS: Readonly<Record<string, readonly string[]>> = {
  exclave: [
    "@exclave/server",
    "@exclave/agent",
    "@exclave/oci",
    "@exclave/runner",
    "@exclave/plugin-command",
    "@exclave/plugin-helm",
    "@exclave/plugin-image",
    "@exclave/plugin-kubernetes",
    "@exclave/plugin-service",
    "@exclave/plugin-terraform",
    "@exclave/sandbox-local",
    "@exclave/sandbox-podman",
  ],
};

/** Third-party packages a customer's reviewer would have to read. Adding one is a decision. */
const OUTSIDE: Readonly<Record<string, readonly string[]>> = {
  "@exclave/core": ["@marcbachmann/cel-js", "yaml", "zod"],
  "@exclave/machine": ["zod"],
  "@exclave/agent": ["ws", "zod"],
  "@exclave/runner": ["yauzl", "yazl", "zod"],
  "@exclave/runtime": ["zod"],
  "@exclave/plugin-sdk": ["zod"],
};

/** The clock and the dice: the two impure things that no compiler setting can take away. */
const IMPURE =
  /\bDate\.now\(|\bnew Date\(\)|\bMath\.random\(|\bperformance\.|\bcrypto\.(randomUUID|getRandomValues)|\bsetTimeout\(|\bsetInterval\(/;

interface SourceFile {
  readonly path: string;
  readonly text: string;
}

interface Package {
  readonly name: string;
  readonly dependencies: readonly string[];
  readonly files: readonly SourceFile[];
}

const packages = globSync("{packages,plugins,sandboxes}/*/package.json", { cwd: ROOT }).map(read);

for (const { name, dependencies, files } of packages) {
  const shipped = files.filter(({ path }) => !isForTests(path));

  test(`${name} imports only from the floors below it`, () => {
    const allowed = ALLOWED[name];
    assert.ok(allowed, `${name} has no place in the architecture yet: add it to ALLOWED`);
    assertNone(
      shipped,
      (specifier) =>
        isOurs(specifier) && owner(specifier) !== name && !allowed.includes(owner(specifier)),
    );
  });

  test(`${name} declares what it imports, so that its package.json is the whole truth`, () => {
    assertNone(
      shipped,
      (specifier) =>
        isPackage(specifier) &&
        owner(specifier) !== name &&
        !dependencies.includes(owner(specifier)),
    );
    const declared = dependencies.filter(isOurs);
    const known = [...(ALLOWED[name] ?? []), ...(SHIPS[name] ?? [])];
    assert.deepEqual(
      declared.filter((dependency) => !known.includes(dependency)),
      [],
    );
  });

  test(`${name} uses every package it declares`, () => {
    const imported = new Set(shipped.flatMap(({ text }) => specifiers(text)).map(owner));
    const idle = dependencies.filter(
      (dependency) => !imported.has(dependency) && !SHIPS[name]?.includes(dependency),
    );
    assert.deepEqual(idle, []);
  });

  test(`${name} reaches into no package but by its front door`, () => {
    assertNone(shipped, (specifier) => /^\.\.\/.*\/(packages|plugins|sandboxes)\//.test(specifier));
  });

  const outside = OUTSIDE[name];
  if (outside) {
    test(`${name} depends on nothing from outside but ${outside.join(", ")}`, () => {
      assert.deepEqual(
        dependencies.filter((dependency) => !isOurs(dependency) && !outside.includes(dependency)),
        [],
      );
    });
  }
}

test("the core reads no clock, rolls no dice and has no Node, so that every decision can be replayed", () => {
  const core = packages.find(({ name }) => name === "@exclave/core");
  const shipped = core?.files.filter(({ path }) => !isForTests(path)) ?? [];
  assert.ok(shipped.length > 5);
  assert.deepEqual(
    shipped.filter(({ text }) => IMPURE.test(text)).map(({ path }) => path),
    [],
  );
  assertNone(shipped, isBuiltin);
});

// A plugin that is not shipped is built, tested, and unknown to whoever installs the command.
test("the command ships with every plugin and every sandbox", () => {
  const images = packages.map(({ name }) => name).filter(isImage);
  assert.ok(images.length > 4);
  assert.deepEqual(
    images.filter((name) => !SHIPS["exclave"]?.includes(name)),
    [],
  );
});

function isImage(name: string): boolean {
  return /^@exclave\/(runner|plugin-(?!sdk)|sandbox-)/.test(name);
}

test("no package or program may be placed without a rule", () => {
  assert.deepEqual(packages.map(({ name }) => name).sort(), Object.keys(ALLOWED).sort());
});

// Promise 3 and the two that lean on it, asked of npm itself and not of our own table.
test("an agent's dependency tree contains no plugin, a server's no runtime, a runner's no client for the server", () => {
  assert.deepEqual(
    treeOf("@exclave/agent").filter((name) => /plugin|sandbox|runner|server/.test(name)),
    [],
  );
  assert.deepEqual(
    treeOf("@exclave/server").filter((name) =>
      /^@exclave\/(runtime|agent|runner|plugin|sandbox)/.test(name),
    ),
    [],
  );
  assert.deepEqual(
    treeOf("@exclave/runner").filter((name) => /^@exclave\/(api|server|agent)/.test(name)),
    [],
  );
});

function read(path: string): Package {
  const manifest = JSON.parse(readFileSync(join(ROOT, path), "utf8"));
  const folder = dirname(path);
  const files = globSync(`${folder}/{src,bin}/**/*.{ts,js}`, { cwd: ROOT }).map((file) => ({
    path: file,
    text: readFileSync(join(ROOT, file), "utf8"),
  }));
  return { name: manifest.name, dependencies: Object.keys(manifest.dependencies ?? {}), files };
}

function treeOf(name: string): string[] {
  const dependencies = new Map(packages.map((one) => [one.name, one.dependencies]));
  const seen = new Set<string>();
  const visit = (one: string): void => {
    for (const next of dependencies.get(one) ?? outsideDependencies(one)) {
      if (seen.has(next)) continue;
      seen.add(next);
      visit(next);
    }
  };
  visit(name);
  assert.ok(seen.size > 2, `${name} has a tree`);
  return [...seen];
}

function outsideDependencies(name: string): string[] {
  try {
    const manifest = JSON.parse(
      readFileSync(join(ROOT, "node_modules", name, "package.json"), "utf8"),
    );
    return Object.keys(manifest.dependencies ?? {});
  } catch {
    return [];
  }
}

function isForTests(path: string): boolean {
  return (
    path.endsWith(".test.ts") || path.includes("/testing/") || /\.(testing|e2e)\.ts$/.test(path)
  );
}

function isOurs(name: string): boolean {
  return name.startsWith("@exclave/") || name === "exclave";
}

function isBuiltin(specifier: string): boolean {
  return specifier.startsWith("node:") || builtinModules.includes(specifier);
}

function isPackage(specifier: string): boolean {
  return !specifier.startsWith(".") && !isBuiltin(specifier);
}

/** `@scope/name/file` belongs to `@scope/name`. */
function owner(specifier: string): string {
  return specifier
    .split("/")
    .slice(0, specifier.startsWith("@") ? 2 : 1)
    .join("/");
}

function specifiers(text: string): string[] {
  const statements =
    /^(?:import|export)\b[^;]*?\bfrom\s+["']([^"']+)["']|^import\s+["']([^"']+)["']|\bimport\(\s*["']([^"']+)["']\s*\)/gm;
  return [...text.matchAll(statements)].map(
    ([, from, bare, dynamic]) => from ?? bare ?? dynamic ?? "",
  );
}

function assertNone(files: readonly SourceFile[], isWrong: (specifier: string) => boolean): void {
  const wrong = files.flatMap(({ path, text }) =>
    specifiers(text)
      .filter(isWrong)
      .map((specifier) => `${path} imports ${specifier}`),
  );
  assert.deepEqual(wrong, []);
}

// A folder that outgrows this is asking for its nouns: group by what a file is about.
test("no folder of product code has more than 30 files side by side", () => {
  const filesMax = 30;
  const files = globSync("{{packages,plugins,sandboxes}/*/src,tools}/**/*", {
    cwd: ROOT,
    withFileTypes: true,
  }).filter((entry) => entry.isFile());

  const folders = Map.groupBy(files, ({ parentPath }) => relative(ROOT, parentPath));

  assert.ok(folders.has("tools") && folders.has(join("packages", "core", "src")));
  assert.deepEqual(
    [...folders]
      .filter(([, { length }]) => length > filesMax)
      .map(([folder, { length }]) => `${folder} has ${length} files`),
    [],
  );
});

// Promise 1: sharing a server is impossible, not forbidden.
test("nothing in server, API or core knows of more than one tenant", () => {
  const shared = packages
    .filter(({ name }) => ["@exclave/server", "@exclave/api", "@exclave/core"].includes(name))
    .flatMap(({ files }) => files);
  assert.ok(shared.some(({ text }) => /create table/i.test(text)));
  assert.deepEqual(
    shared.filter(({ text }) => /tenant/i.test(text)).map(({ path }) => path),
    [],
  );
});

// Promise 10: what a component type needs is in its descriptor, and nobody asks which type it is.
test("no decision of core, API, server, agent or runner names a component type or a sandbox", () => {
  // Words of the link and of artifacts too: a frame is a command, a build may give an image.
  const ambiguous = ["command", "image"];
  const named = ["plugins", "sandboxes"]
    .flatMap((folder) => readdirSync(join(ROOT, folder)))
    .filter((name) => !ambiguous.includes(name));
  assert.ok(named.includes("terraform") && named.includes("local"));
  const asks = new RegExp(
    `\\b(type|plugin|kind|sandbox)\\w*\\s*[!=]==?\\s*["'](${named.join("|")})["']|case ["'](${named.join("|")})["']:`,
    "i",
  );
  assert.match('if (component.type === "terraform") {', asks);
  const decides = ["core", "api", "server", "agent", "runner"].map((name) => `@exclave/${name}`);
  assert.deepEqual(
    packages
      .filter(({ name }) => decides.includes(name))
      .flatMap(({ files }) => files)
      .filter(({ path, text }) => !isForTests(path) && asks.test(text))
      .map(({ path, text }) => `${path}: ${asks.exec(text)?.[0]}`),
    [],
  );
});

// Promise 2: the server answers, and has nothing to connect into an account with.
test("the server dials nothing but its own signer, database and object store and a collector of traces", () => {
  const dials =
    /\bfetch\(|\bcreateRegistryClient\b|\bcreateS3ObjectStore\b|new WebSocket\(|\b(connect|createConnection)\b[^;]*from "node:(net|tls)"|\brequest\b[^;]*from "node:https?"|from "(pg|undici)"/;
  const server = packages.find(({ name }) => name === "@exclave/server");
  const dialling = server?.files.filter(({ path, text }) => !isForTests(path) && dials.test(text));
  assert.deepEqual(dialling?.map(({ path }) => path.slice(path.indexOf("src/"))).sort(), [
    "src/content/read-object-store.ts",
    "src/peers/postgres-connection.ts",
    "src/signer/open-signer.ts",
    "src/store/postgres/postgres-pool.ts",
    "src/traces/span-exporter.ts",
  ]);
});

// SECURITY.md tells the customer's reviewer this list.
test("an agent's whole tree from outside is five packages", () => {
  assert.deepEqual(
    treeOf("@exclave/agent")
      .filter((name) => !isOurs(name))
      .sort(),
    ["@marcbachmann/cel-js", "jose", "ws", "yaml", "zod"],
  );
});

test("nothing in the tree names a machine, a private place or a registry's host", () => {
  const tracked = execFileSync("git", ["ls-files"], { cwd: ROOT, encoding: "utf8" })
    .split("\n")
    .filter(Boolean);
  const wrong = tracked
    .filter((path) => !path.endsWith("architecture.test.ts") && !path.endsWith(".png"))
    .filter((path) => {
      try {
        return /\/work\/(main|shared)|\/root\/|\.library\//.test(
          readFileSync(join(ROOT, path), "utf8"),
        );
      } catch {
        return false;
      }
    });
  assert.deepEqual(wrong, []);
});
