// A Terraform component with a real provider, built, pushed, and deployed by jobs whose terraform or tofu
// has no network at all: each of its processes runs in a network namespace with nothing in it.

import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import {
  type ArtifactRef,
  JobDocument,
  type JobLine,
  type ResultLine,
  writeTar,
} from "@exclave/core";
import { createRegistryClient, digestOf, parseManifest, serveRegistry } from "@exclave/oci";
import { runJob } from "@exclave/runner";
import { terraformProviderLocal } from "../../../tools/test-tools/terraform-provider-local.ts";
import { has, ROOT } from "../testing/harness.ts";

const REPOSITORY = "apps/shop/files";
const REGISTRIES = { terraform: "registry.terraform.io", tofu: "registry.opentofu.org" } as const;
type Tool = keyof typeof REGISTRIES;
const platform = `${process.platform}_${process.arch === "x64" ? "amd64" : process.arch}`;
const provider = await terraformProviderLocal();
const noNamespace =
  spawnSync("unshare", ["-n", "true"]).status !== 0 &&
  "a network namespace cannot be made here (needs root): offline jobs were not tried";

for (const tool of Object.keys(REGISTRIES) as Tool[]) {
  const noTool = !has(tool) && `${tool} is not on PATH: its offline line was not tried`;
  const skip = noTool || noNamespace || (provider.kind === "unavailable" && provider.because);

  test(`${tool} initialises, plans, applies and destroys with its network taken away`, {
    skip,
  }, async (t) => {
    const { source, lock } = await lockedSource(t, tool);
    const world = await createWorld(t, tool);
    assert.match(world.reach(), /cannot connect/, "the tool has no network");

    const artifact = await world.build({ ...source, ".terraform.lock.hcl": lock });

    const made = join(world.directory, "made.txt");
    const config = { variables: { file: made } };
    const planned = await world.job({ operation: "plan", artifact, config });
    assert.equal(planned.result.plan?.summary, "1 to add, 0 to change, 0 to destroy");
    const parameters = { plan: planned.result.plan?.digest };
    await world.job({ operation: "apply", artifact, config, parameters });
    assert.equal(await readFile(made, "utf8"), "made");
    const { result } = await world.job({ operation: "status", artifact, config });
    assert.equal(result.health, "healthy");
    await world.job({ operation: "destroy", artifact, config });
    await assert.rejects(readFile(made), { code: "ENOENT" });
  });

  test(`${tool}: what two modules share is one layer, and the same source the same digest`, {
    skip,
  }, async (t) => {
    const { source, lock } = await lockedSource(t, tool);
    const world = await createWorld(t, tool);
    const locked = { ...source, ".terraform.lock.hcl": lock };

    const one = await world.build(locked);
    const again = await world.build(locked);
    const other = await world.build({
      ...locked,
      "other.tf": 'output "other" {\n  value = 1\n}\n',
    });

    assert.equal(again.digest, one.digest);
    assert.notEqual(other.digest, one.digest);
    const [layers, otherLayers] = [await world.layers(one), await world.layers(other)];
    assert.equal(layers.length, 2);
    assert.notEqual(otherLayers[0], layers[0]);
    assert.equal(otherLayers[1], layers[1]);
  });

  test(`${tool} refuses to build with a provider that is not the one in the lock file`, {
    skip,
  }, async (t) => {
    const { source, lock } = await lockedSource(t, tool);
    const world = await createWorld(t, tool);
    const other = lock.replace(/"h1:[^"]+"/, `"h1:${"A".repeat(43)}="`);

    const { result } = await world.attempt({
      operation: "build",
      files: { ...source, ".terraform.lock.hcl": other },
    });

    const name = `${REGISTRIES[tool]}/hashicorp/local 1.4.0 for ${platform}`;
    assert.equal(result.failure?.code, "invalid");
    assert.ok(
      result.failure?.message.includes(`the provider ${name} has a hash`),
      result.failure?.message,
    );
  });
}

/** A module that makes a file, with its provider in the source and the lock file the tool makes of that. */
async function lockedSource(t: TestContext, tool: Tool) {
  const directory = await mkdtemp(join(tmpdir(), "exclave-lock-"));
  t.after(() => rm(directory, { recursive: true, force: true }));
  assert.equal(provider.kind, "ready");
  const address = `${REGISTRIES[tool]}/hashicorp/local`;
  const mirror = provider.kind === "ready" ? provider.mirror : "";
  const main = `terraform {
  required_providers {
    local = {
      source  = "${address}"
      version = "1.4.0"
    }
  }
}
variable "file" {
  type = string
}
resource "local_file" "made" {
  filename = var.file
  content  = "made"
}
`;
  await writeFile(join(directory, "main.tf"), main);
  execFileSync(tool, ["providers", "lock", `-fs-mirror=${mirror}`, `-platform=${platform}`], {
    cwd: directory,
    env: { PATH: process.env["PATH"], TF_CLI_CONFIG_FILE: "/dev/null", CHECKPOINT_DISABLE: "1" },
    stdio: "ignore",
  });
  const lock = await readFile(join(directory, ".terraform.lock.hcl"), "utf8");
  const place = join(address, "1.4.0", platform);
  const [program = ""] = await readdir(join(mirror, place));
  const bytes = await readFile(join(mirror, place, program));
  return { source: { "main.tf": main, [`providers/${place}/${program}`]: bytes }, lock };
}

type Files = Readonly<Record<string, string | Uint8Array>>;

async function createWorld(t: TestContext, tool: Tool) {
  const directory = await mkdtemp(join(tmpdir(), "exclave-offline-"));
  t.after(() => rm(directory, { recursive: true, force: true }));
  const registry = await serveRegistry({
    directory: join(directory, "registry"),
    host: "127.0.0.1",
    port: 0,
    auth: { kind: "anonymous" },
  });
  const store = createRegistryClient({ url: registry.url });
  t.after(async () => {
    store.close();
    await registry.close();
  });
  const bin = join(directory, "bin");
  const pluginDirectory = join(directory, "plugin");
  await mkdir(bin);
  await mkdir(pluginDirectory);
  const real = execFileSync("sh", ["-c", `command -v ${tool}`], { encoding: "utf8" }).trim();
  await writeFile(join(bin, tool), `#!/bin/sh\nexec unshare -n ${real} "$@"\n`, { mode: 0o755 });
  const plugin = join(ROOT, "plugins/terraform/src/plugin.ts");
  const entry = `export { plugin } from ${JSON.stringify(`file://${plugin}`)};\n`;
  await writeFile(join(pluginDirectory, "plugin.mjs"), entry);
  let jobs = 0;

  return { directory, build, job, attempt, layers, reach };

  async function build(files: Files): Promise<ArtifactRef> {
    const { lines } = await job({ operation: "build", files });
    const artifact = lines.find((line) => line.type === "artifact");
    assert.ok(artifact);
    return { repository: artifact.repository, digest: artifact.digest };
  }

  async function job(wanted: Wanted): Promise<Done> {
    const done = await attempt(wanted);
    assert.ok(done.result.ok, `${wanted.operation}: ${done.result.failure?.message}`);
    return done;
  }

  async function attempt({ files, config, ...wanted }: Wanted): Promise<Done> {
    const jobDirectory = join(directory, `job-${++jobs}`);
    await mkdir(jobDirectory);
    const providersFrom = files ? { providersFrom: "providers" } : {};
    const document = JobDocument.parse({
      version: 1,
      job: "jaaaaaaaaaaaaaaaa",
      attempt: jobs,
      component: "files",
      parameters: {},
      materials: [],
      secrets: [],
      deadlineAt: 4_102_444_800_000,
      registry: { url: registry.url },
      pushTo: { url: registry.url, repository: REPOSITORY },
      ...(files && { source: await serveSource(t, files) }),
      ...wanted,
      config: { tool, ...providersFrom, ...config },
    });
    const lines: JobLine[] = [];
    const result = await runJob({
      document,
      jobDirectory,
      stateDirectory: join(directory, "state"),
      runDirectory: join(directory, "run"),
      pluginDirectory,
      environment: {
        PATH: `${bin}:${process.env["PATH"]}`,
        HOME: jobDirectory,
        TMPDIR: directory,
      },
      signal: new AbortController().signal,
      forwardStop: true,
      write: (line) => lines.push(line),
    });
    return { result, lines };
  }

  async function layers({ repository, digest }: ArtifactRef): Promise<string[]> {
    const { bytes, mediaType } = await store.readManifest(repository, digest);
    const parsed = parseManifest(bytes, mediaType);
    assert.ok(parsed.kind === "manifest");
    return parsed.manifest.layers.map((layer) => layer.digest);
  }

  /** What becomes of a connection from where the tool runs, to something that certainly listens. */
  function reach(): string {
    const { hostname, port } = new URL(registry.url);
    const program = `require("net").connect(${port}, "${hostname}").on("connect", () => { console.log("connected"); process.exit(); }).on("error", () => console.log("cannot connect"))`;
    return execFileSync("unshare", ["-n", process.execPath, "-e", program], { encoding: "utf8" });
  }
}

interface Wanted extends Partial<Omit<JobDocument, "config">> {
  readonly operation: JobDocument["operation"];
  readonly config?: Readonly<Record<string, unknown>>;
  readonly files?: Files;
}

interface Done {
  readonly result: ResultLine;
  readonly lines: readonly JobLine[];
}

async function serveSource(t: TestContext, files: Files) {
  const bytes = writeTar(
    Object.entries(files).map(([path, content]) => ({
      type: "file",
      path,
      mode: path.includes("terraform-provider-") ? 0o755 : 0o644,
      bytes: typeof content === "string" ? new TextEncoder().encode(content) : content,
    })),
  );
  const server = createServer((_request, response) => response.end(bytes));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}/source`, token: "any", digest: digestOf(bytes) };
}
