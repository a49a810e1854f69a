import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { text as readText } from "node:stream/consumers";
import { after, before, test } from "node:test";
import { type ArtifactRef, type JobDocument, type JobLine, writeTar } from "@exclave/core";
import {
  copyArtifact,
  createLayoutStore,
  createRegistryClient,
  type RegistryClient,
  type RunningRegistry,
  readImage,
  serveRegistry,
  unpackImage,
} from "@exclave/oci";
import type { BuiltImage } from "@exclave/oci/images";
import { buildImages } from "./build.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const EXAMPLE = join(ROOT, "examples/plugin-in-shell");

let directory = "";
let layout = "";
let images: readonly BuiltImage[] = [];
let served: RunningRegistry;
let registry: RegistryClient;

// Once for all tests, with a stand-in for Node: its 120 MB are no different from any other file.
before(async () => {
  directory = await mkdtemp(join(tmpdir(), "exclave-build-images-"));
  layout = join(directory, "images");
  images = await built(layout);
  const store = join(directory, "registry");
  served = await serveRegistry({
    directory: store,
    host: "127.0.0.1",
    port: 0,
    auth: { kind: "anonymous" },
  });
  registry = createRegistryClient({ url: served.url });
});

after(async () => {
  registry.close();
  await served.close();
  await rm(directory, { recursive: true, force: true });
});

async function built(out: string, ifNeeded = false): Promise<readonly BuiltImage[]> {
  const nodePath = join(directory, "node");
  if (!(await stat(nodePath).catch(() => undefined))) await writeFile(nodePath, "not really node");
  const build = await buildImages({
    root: ROOT,
    directory: out,
    nodePath,
    ifNeeded,
    log: () => undefined,
  });
  return build.kind === "built" ? build.images : [];
}

function image(name: string): BuiltImage {
  const found = images.find((each) => each.name === name);
  assert.ok(found, `there is no image ${name}`);
  return found;
}

test("every plugin and sandbox is an image on top of the runner, with its descriptor", async () => {
  const store = createLayoutStore({ directory: layout });
  const runner = await readImage(store, "exclave/runner", image("runner").digest);

  for (const name of ["command", "service", "image", "terraform", "local"]) {
    const { repository, digest, descriptor } = image(name);
    const { manifest, config } = await readImage(store, repository, digest);
    assert.deepEqual(manifest.layers.slice(0, -1), runner.manifest.layers);
    assert.equal(JSON.parse(manifest.annotations?.["dev.exclave.plugin.v1"] ?? "").type, name);
    assert.equal(descriptor?.type, name);
    assert.deepEqual(config.config.Entrypoint, ["/exclave/bin/node", "/exclave/runner.mjs"]);
  }
});

test("an image holds the programs its plugin starts by itself", async () => {
  const store = createLayoutStore({ directory: layout });
  const files = async (name: string) => {
    const { repository, digest } = image(name);
    const root = join(directory, `root-${name}`);
    await unpackImage(store, repository, digest, root);
    return (await readdir(join(root, "exclave"))).toSorted();
  };

  assert.deepEqual(await files("service"), ["bin", "plugin.mjs", "runner.mjs", "supervisor.mjs"]);
  const sandbox = ["agent.mjs", "init.mjs", "keeper.mjs", "plugin.mjs", "registry.mjs"];
  assert.deepEqual(
    (await files("local")).filter((name) => name !== "bin" && name !== "runner.mjs"),
    sandbox,
  );
});

test("the same source gives the same digests, and what is up to date is left alone", async () => {
  const again = await built(join(directory, "again"));

  assert.deepEqual(again, images);
  assert.deepEqual(await built(layout, true), []);
  assert.deepEqual(JSON.parse(await readFile(join(layout, "images.json"), "utf8")), images);
});

test("a build leaves nothing of an earlier one in the layout", async () => {
  const blobs = join(layout, "blobs/sha256");
  const stale = join(blobs, "0".repeat(64));
  await writeFile(stale, "stale");
  const before = await readdir(blobs);

  await built(layout);

  assert.deepEqual(
    await readdir(blobs),
    before.filter((name) => name !== "0".repeat(64)),
  );
});

test("a vendor's plugin in shell is built into an image by the image plugin, and runs", async () => {
  for (const { repository, digest } of [image("runner"), image("image")]) {
    const from = createLayoutStore({ directory: layout });
    const target = { repository };
    await copyArtifact({ from, to: registry, source: { repository, digest }, target });
  }
  const { repository, digest } = image("runner");
  const vendors = "plugins/notices/motd";
  const component = "apps/notices/welcome";

  const plugin = await artifactOf(image("image"), {
    operation: "build",
    component: "motd",
    source: await serve(join(EXAMPLE, "plugin")),
    materials: [{ name: "base", repository, digest }],
    pushTo: { url: served.url, repository: vendors },
  });
  const { manifest } = await readImage(registry, vendors, plugin.digest);
  assert.match(manifest.annotations?.["dev.exclave.plugin.v1"] ?? "", /"type":"motd"/);
  const artifact = await artifactOf(plugin, {
    operation: "build",
    source: await serve(join(EXAMPLE, "notice")),
    pushTo: { url: served.url, repository: component },
  });
  const config = { title: "Hello", owner: "Ada" };
  const applied = await run(plugin, { operation: "apply", artifact, config });
  const status = await run(plugin, { operation: "status", artifact, config });

  const path = applied.find((line) => line.type === "output" && line.name === "path");
  assert.ok(path?.type === "output");
  assert.match(await readFile(String(path.value), "utf8"), /^Hello\n\n.*Ada/);
  assert.deepEqual(status.at(-1), {
    type: "result",
    ok: true,
    health: "healthy",
    because: "the message is in place",
  });
});

test("a service is kept up by the supervisor of its image, which outlives the job", async () => {
  const { repository, digest } = image("service");
  const from = createLayoutStore({ directory: layout });
  const source = { repository, digest };
  await copyArtifact({ from, to: registry, source, target: { repository } });
  const program =
    'require("http").createServer((_, r) => r.end("up")).listen(process.env.PORT, "127.0.0.1")';
  const config = { command: ["node", "-e", program], health: { path: "/" } };

  const applied = await run(source, { operation: "apply", config });
  try {
    const url = applied.find((line) => line.type === "output" && line.name === "url");
    assert.ok(url?.type === "output");
    assert.equal(await (await fetch(String(url.value))).text(), "up");
    const ended = (await run(source, { operation: "status", config })).at(-1);
    assert.ok(ended?.type === "result" && ended.health === "healthy");
  } finally {
    const destroyed = await run(source, { operation: "destroy", config });
    assert.deepEqual(destroyed.at(-1), { type: "result", ok: true });
  }
});

/** Runs one job from the image's own files, as a runtime would. */
async function run(ref: ArtifactRef, document: Partial<JobDocument>): Promise<JobLine[]> {
  const root = await mkdtemp(join(directory, "root-"));
  const job = await mkdtemp(join(directory, "job-"));
  const state = join(directory, "state");
  await mkdir(state, { recursive: true });
  await unpackImage(registry, ref.repository, ref.digest, root);
  const complete = {
    version: 1,
    job: "jaaaaaaaaaaaaaaaa",
    attempt: 1,
    component: "welcome",
    config: {},
    parameters: {},
    materials: [],
    secrets: [],
    registry: { url: served.url },
    deadlineAt: 4_102_444_800_000,
    ...document,
  };
  await writeFile(join(job, "job.json"), JSON.stringify(complete));
  const child = spawn(process.execPath, [join(root, "exclave/runner.mjs")], {
    env: { EXCLAVE_JOB_DIR: job, EXCLAVE_STATE_DIR: state, PATH: process.env.PATH },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const exited = once(child, "exit");
  const text = await readText(child.stdout);
  const [code] = await exited;
  assert.equal(code, 0, text);
  return text
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
}

async function artifactOf(ref: ArtifactRef, document: Partial<JobDocument>): Promise<ArtifactRef> {
  const artifact = (await run(ref, document)).find((line) => line.type === "artifact");
  assert.ok(artifact?.type === "artifact");
  return { repository: artifact.repository, digest: artifact.digest };
}

/** A directory as the server hands out a source. */
async function serve(source: string): Promise<NonNullable<JobDocument["source"]>> {
  const entries = await Promise.all(
    (await readdir(source)).map(async (path) => {
      const file = join(source, path);
      const { mode } = await stat(file);
      return { type: "file" as const, path, mode: mode & 0o777, bytes: await readFile(file) };
    }),
  );
  const bytes = writeTar(entries);
  const server = createServer((_, response) => response.end(bytes));
  server.listen(0, "127.0.0.1").unref();
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const digest = `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
  return { url: `http://127.0.0.1:${port}/`, token: "t", digest } as NonNullable<
    JobDocument["source"]
  >;
}
