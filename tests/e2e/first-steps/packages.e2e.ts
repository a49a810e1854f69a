// What a vendor gets who has npm and no clone: every package packed, installed into an empty directory,
// and the demo running from there. Nothing of the repository is within reach: not by PATH, not by a
// home, and at the end no file and no process names it.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import {
  cpSync,
  globSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { type TestContext, test } from "node:test";
import type { InstallView } from "@exclave/api";
import { isSettled, processes, ROOT, run, until } from "../testing/harness.ts";

const PACKAGES = globSync("{packages,plugins,sandboxes}/*/package.json", { cwd: ROOT }).map(
  (path) => JSON.parse(readFileSync(join(ROOT, path), "utf8")).name as string,
);

test("every package, packed and installed with npm alone, gives an exclave that runs its demo", async (t) => {
  const place = emptyPlace(t);
  const { env, app } = place;

  await t.test("npm installs the tarballs and takes the rest from its registry", async () => {
    const tarballs = join(place.directory, "tarballs");
    execFileSync(process.execPath, ["tools/pack.ts", "--out", tarballs], {
      cwd: ROOT,
      stdio: ["ignore", "ignore", "inherit"],
    });
    const files = readdirSync(tarballs).map((name) => join(tarballs, name));
    assert.equal(files.length, PACKAGES.length);
    const flags = ["--no-audit", "--no-fund", "--prefer-offline"];

    const installed = await run("npm", ["install", ...flags, ...files, types()], { cwd: app, env });

    assert.equal(installed.code, 0, installed.stderr);
    const found = PACKAGES.filter((name) => readdirSync(join(app, "node_modules", name)).length);
    assert.deepEqual(found, PACKAGES);
    const status = execFileSync("git", ["status", "--porcelain", "--", ...PLACES], { cwd: ROOT });
    assert.doesNotMatch(status.toString(), /package\.json/, "packing leaves the clone as it was");
  });

  await t.test("the command says its version and helps", async () => {
    const version = await exclave("--version");
    assert.match(version.stdout, new RegExp(`^exclave +${ownVersion()}$`, "m"));
    assert.match((await exclave("--help")).stdout, /up .*run everything on this machine/);
    assert.equal((await exclave("install", "--help")).code, 0);
  });

  await t.test("a plugin author's compiler finds every type", async () => {
    writeFileSync(join(app, "plugin.mts"), PLUGIN);
    const tsc = join(ROOT, "node_modules/typescript/bin/tsc");
    const flags = ["--noEmit", "--strict", "--module", "nodenext", "--target", "es2024"];

    const checked = await run(process.execPath, [tsc, ...flags, "--types", "node", "plugin.mts"], {
      cwd: app,
      env,
    });

    assert.equal(checked.code, 0, checked.stdout);
  });

  await t.test("the demo comes up healthy and serves its page", async () => {
    let output = "";
    const up = spawn(join(app, "node_modules/.bin/exclave"), ["up", "--demo"], {
      cwd: app,
      env,
      stdio: ["ignore", "pipe", "pipe"],
    });
    for (const stream of [up.stdout, up.stderr]) {
      stream.on("data", (chunk: Buffer) => (output += chunk.toString()));
    }
    await until("the demo runs", () => {
      assert.equal(up.exitCode, null, `up ended early:\n${output}`);
      return output.includes("running; Ctrl-C ends everything");
    });

    const shown = await exclave("install", "show", "acme", "-o", "json");
    const install: InstallView = JSON.parse(shown.stdout);
    assert.ok(isSettled(install), shown.stdout);
    const page = install.components.find(({ name }) => name === "web")?.outputs["url"];
    assert.equal((await fetch(String(page))).status, 200);
    assert.deepEqual(namingTheClone(place.directory), []);

    const ended = once(up, "exit");
    up.kill("SIGINT");
    assert.deepEqual(await ended, [0, null], output);
    assert.deepEqual(processes(place.directory), []);
  });

  await t.test("nothing that was installed names the clone", () => {
    const files = globSync("node_modules/{exclave,@exclave}/**/*.{js,mjs,json,ts,md,yaml,map}", {
      cwd: app,
    });
    assert.ok(files.length > 500);
    const naming = files.filter((file) => readFileSync(join(app, file), "utf8").includes(ROOT));
    assert.deepEqual(naming, []);
  });

  function exclave(...args: readonly string[]) {
    return run(join(app, "node_modules/.bin/exclave"), args, { cwd: app, env });
  }
});

const PLACES = ["packages", "plugins", "sandboxes"];

const PLUGIN = `
import { AppName, type Manifest } from "@exclave/core";
import { createClient } from "@exclave/api";
import { definePlugin, z } from "@exclave/plugin-sdk";
import { createTestContext } from "@exclave/plugin-sdk/testing";

export const name: string = AppName.parse("crm");
export const client = createClient({ url: "http://127.0.0.1:1", token: "none" });
export type Steps = Manifest["steps"];
export const plugin = definePlugin({
  type: "sample",
  description: "A sample",
  config: z.object({ title: z.string() }),
  outputs: "open",
  async apply({ config, output }) {
    output("title", config.title.trim());
    // @ts-expect-error The configuration is typed: a key that is not in the schema is an error.
    output("other", config.other);
  },
});
export const context = createTestContext;
`;

interface Place {
  readonly directory: string;
  /** The empty directory of somebody who has npm. */
  readonly app: string;
  readonly env: NodeJS.ProcessEnv;
}

function emptyPlace(t: TestContext): Place {
  const directory = mkdtempSync(join(tmpdir(), "exclave-packages-"));
  const [app, home, bin] = ["app", "home", "bin"].map((name) => join(directory, name)) as [
    string,
    string,
    string,
  ];
  for (const each of [app, home, bin]) mkdirSync(each);
  copyNode(join(bin, "node"));
  t.after(() => {
    for (const { pid } of processes(directory)) process.kill(pid, "SIGKILL");
    if (process.env["EXCLAVE_KEEP"]) console.error(`kept ${directory}`);
    else rmSync(directory, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
  });
  const path = (process.env["PATH"] ?? "").split(delimiter).filter((one) => !one.includes(ROOT));
  const env = {
    ...npmReach(),
    PATH: [bin, ...path.filter((one) => !one.endsWith("node_modules/.bin"))].join(delimiter),
    HOME: home,
    NO_COLOR: "1",
  };
  return { directory, app, env };
}

/** A file of its own: a program's path is that of the file it was started from, whatever the link. */
function copyNode(file: string): void {
  try {
    linkSync(process.execPath, file);
  } catch {
    cpSync(process.execPath, file);
  }
}

/** How this machine reaches npm's registry, and what it has of it already. */
function npmReach(): NodeJS.ProcessEnv {
  const config = (key: string) =>
    execFileSync("npm", ["config", "get", key], { cwd: ROOT, encoding: "utf8" }).trim();
  const kept = Object.entries(process.env).filter(([name]) =>
    /^((https?|no)_proxy|NODE_EXTRA_CA_CERTS|SSL_CERT_(FILE|DIR))$/i.test(name),
  );
  return {
    ...Object.fromEntries(kept),
    npm_config_registry: config("registry"),
    npm_config_cache: config("cache"),
  };
}

function types(): string {
  const path = join(ROOT, "node_modules/@types/node/package.json");
  return `@types/node@${JSON.parse(readFileSync(path, "utf8")).version}`;
}

function ownVersion(): string {
  return JSON.parse(readFileSync(join(ROOT, "packages/cli/package.json"), "utf8")).version;
}

/** Processes of the place whose program, directory, arguments or environment lie in the clone. */
function namingTheClone(directory: string): string[] {
  const ours = processes(directory);
  assert.ok(ours.length > 5);
  return ours
    .filter(({ pid }) => {
      const links = ["exe", "cwd"].map((name) => readlinkSync(`/proc/${pid}/${name}`));
      const texts = ["cmdline", "environ"].map((name) =>
        readFileSync(`/proc/${pid}/${name}`, "utf8"),
      );
      return [...links, ...texts].some((text) => text.includes(ROOT));
    })
    .map(({ command }) => command);
}
