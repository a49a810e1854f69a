import assert from "node:assert/strict";
import { chmod, mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type TestContext as NodeTest, test } from "node:test";
import { createTestContext } from "@exclave/plugin-sdk/testing";
import { plugin } from "./plugin.ts";

// What is met before a cluster is: the machine itself.

test("a machine without helm says so, and may have it later", async (t) => {
  const { run } = await withPath(t, {});

  await assert.rejects(run("status"), {
    code: "unavailable",
    message: "helm is not on the PATH of this machine",
  });
});

test("an older helm is refused by its version", async (t) => {
  const { run } = await withPath(t, { helm: "echo v3.17.1" });

  await assert.rejects(run("status"), {
    code: "unavailable",
    message: /helm v3\.17\.1 .* needs helm 4/,
  });
});

test("a cluster that cannot be reached is unavailable, and not the vendor's fault", async (t) => {
  const said = 'echo "Error: kubernetes cluster unreachable: connection refused" >&2; exit 1';
  const { run } = await withPath(t, {
    helm: `[ "$1" = version ] && echo v4.1.0 && exit 0\n${said}`,
  });

  await assert.rejects(run("status"), { code: "unavailable" });
});

test("values reach helm in a file, never in an argument", async (t) => {
  const seen = 'echo "$@" >> "$HOME/arguments"';
  const { run, workDirectory } = await withPath(t, {
    helm: `${seen}\n[ "$1" = version ] && echo v4.1.0 && exit 0\n[ "$1" = history ] && echo "Error: release: not found" >&2 && exit 1\nexit 1`,
  });
  await assert.rejects(run("plan"));

  const { readFile } = await import("node:fs/promises");
  assert.doesNotMatch(await readFile(join(workDirectory, "arguments"), "utf8"), /hunter2/);
  assert.match(await readFile(join(workDirectory, "values.json"), "utf8"), /hunter2/);
});

async function withPath(t: NodeTest, programs: Readonly<Record<string, string>>) {
  const context = await createTestContext(plugin, { component: "web" });
  t.after(() => rm(context.directory, { recursive: true, force: true }));
  const bin = join(context.directory, "bin");
  await mkdir(bin);
  for (const [name, text] of Object.entries(programs)) {
    await writeFile(join(bin, name), `#!/bin/sh\n${text}\n`);
    await chmod(join(bin, name), 0o755);
  }
  const kubeconfig = join(context.directory, "kubeconfig");
  await writeFile(kubeconfig, "{}");
  await writeFile(join(context.files, "Chart.yaml"), "apiVersion: v2\nname: web\nversion: 1.0.0\n");
  const path = process.env.PATH;
  t.after(() => {
    process.env.PATH = path;
  });
  const run: typeof context.run = async (operation, more = {}) => {
    process.env.PATH = bin;
    try {
      const config = { kubeconfig, values: { password: "hunter2" } };
      return await context.run(operation, { config, ...more });
    } finally {
      process.env.PATH = path;
    }
  };
  return { run, workDirectory: context.workDirectory };
}
