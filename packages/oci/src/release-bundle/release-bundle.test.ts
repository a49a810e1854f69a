// A release crosses an air gap: written as one file from one registry, taken into another, each time
// by the real program.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { generateKeyPairSync, type KeyObject } from "node:crypto";
import { mkdir, open, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { type ContentStore, writeBlobBytes } from "../content-store.ts";
import { type Descriptor, MEDIA_TYPES } from "../descriptor.ts";
import { RELEASE_TYPE } from "../formats/media-types.ts";
import { createSigner, signArtifact } from "../formats/signature.ts";
import { writeDocument } from "../formats/write-document.ts";
import { readLayoutArchive, writeLayoutArchive } from "../layout-archive.ts";
import { createRegistryFiles } from "../registry/registry-files.ts";
import { serveRegistry } from "../registry/serve-registry.ts";
import { temporaryDirectory } from "../testing/temporary-directory.ts";

const repository = "releases/shop";
const vendor = generateKeyPairSync("ec", { namedCurve: "P-256" });
const stranger = generateKeyPairSync("ec", { namedCurve: "P-256" });
const materials = [
  { name: "runner", repository: "exclave/runner" },
  { name: "plugin:command", repository: "exclave/plugins/command" },
  { name: "api", repository: "apps/shop/api" },
];

test("a release written to a file is whole in the install, each part where it belongs", async (t) => {
  const { release, install, bundle } = await airGap(t);

  const { lines, code } = await run("load", "--file", bundle, "--directory", install.directory);

  assert.equal(code, 0, JSON.stringify(lines.at(-1)));
  assert.equal(lines.at(-1)?.install, "acme");
  for (const [index, material] of materials.entries()) {
    const digest = release.entries[index]?.digest ?? "";
    assert.ok(await install.store.headManifest(material.repository, digest), material.name);
    const { bytes } = await install.store.readManifest(material.repository, digest);
    const layer = JSON.parse(Buffer.from(bytes).toString("utf8")).layers[0];
    assert.equal(await install.store.headBlob(material.repository, layer.digest), layer.size);
  }
  const tagged = await install.store.headManifest(repository, "r-1");
  assert.equal(tagged?.digest, release.digest);
  assert.equal((await install.store.referrers(repository, release.digest)).length, 1);
  assert.deepEqual(await workLeft(install.directory), []);
});

test("a release goes under the install's prefix where its registry is shared", async (t) => {
  const { release, install, bundle } = await airGap(t);
  const contract = join(install.directory, "sandbox.json");
  const { registry, ...rest } = JSON.parse(await readFile(contract, "utf8"));
  const shared = { ...rest, registry: { ...registry, repository: "globex" } };
  await writeFile(contract, JSON.stringify(shared));

  const { lines, code } = await run("load", "--file", bundle, "--directory", install.directory);

  assert.equal(code, 0, JSON.stringify(lines.at(-1)));
  const names = [repository, ...materials.map((material) => material.repository)];
  const there = await install.store.repositories();
  assert.deepEqual([...there].sort(), names.map((name) => `globex/${name}`).sort());
  const tagged = await install.store.headManifest(`globex/${repository}`, "r-1");
  assert.equal(tagged?.digest, release.digest);
});

test("a second load of the same bundle copies nothing", async (t) => {
  const { install, bundle } = await airGap(t);
  await run("load", "--file", bundle, "--directory", install.directory);

  const { lines } = await run("load", "--file", bundle, "--directory", install.directory);

  assert.equal(lines.at(-1)?.type, "result");
  assert.equal(lines.at(-1)?.copiedBytes, 0);
});

test("the same release gives the same file", async (t) => {
  const { bundle, write } = await airGap(t);

  const again = await write();

  assert.deepEqual(await readFile(again), await readFile(bundle));
});

const SPOILS: Record<string, (directory: string) => Promise<void>> = {
  "a blob with one byte changed": async (directory) => {
    const file = await open(await someBlob(directory), "r+");
    await file.write(Buffer.from("X"), 0, 1, 40);
    await file.close();
  },
  "a file that is in no release": (directory) => writeFile(join(directory, "blobs/extra"), "x"),
  "no index": (directory) => writeFile(join(directory, "index.json"), "{}"),
};

for (const [what, spoil] of Object.entries(SPOILS)) {
  test(`a bundle with ${what} is refused and nothing is written`, async (t) => {
    const { install, bundle } = await airGap(t);
    const layout = join(await temporaryDirectory(t), "layout");
    await mkdir(layout);
    await readLayoutArchive(bundle, layout);
    await spoil(layout);
    await writeLayoutArchive(layout, bundle);

    const { lines, code } = await run("load", "--file", bundle, "--directory", install.directory);

    assert.equal(code, 1);
    assert.equal(lines.at(-1)?.code, "invalid");
    assert.deepEqual(await contentOf(install.directory), []);
    assert.deepEqual(await workLeft(install.directory), []);
  });
}

test("a bundle that was cut off is refused and nothing is written", async (t) => {
  const { install, bundle } = await airGap(t);
  const whole = await readFile(bundle);
  await writeFile(bundle, whole.subarray(0, whole.length - 4_096));

  const { lines } = await run("load", "--file", bundle, "--directory", install.directory);

  assert.equal(lines.at(-1)?.code, "invalid");
  assert.deepEqual(await contentOf(install.directory), []);
});

for (const [what, signedBy] of [
  ["signed by somebody else", stranger.privateKey],
  ["signed by nobody", null],
] as const) {
  test(`a release ${what} is refused and nothing is written`, async (t) => {
    const { install, bundle } = await airGap(t, signedBy);

    const { lines } = await run("load", "--file", bundle, "--directory", install.directory);

    assert.equal(lines.at(-1)?.code, "signature");
    assert.deepEqual(await contentOf(install.directory), []);
  });
}

test("a key that is named counts instead of the one the agent pinned", async (t) => {
  const { install, bundle } = await airGap(t, stranger.privateKey);
  const key = join(install.directory, "key.pem");
  await writeFile(key, stranger.publicKey.export({ type: "spki", format: "pem" }));

  const named = await run("load", "--file", bundle, "--directory", install.directory, "--key", key);

  assert.equal(named.lines.at(-1)?.type, "result");
});

test("before the agent has joined nobody knows whose signature counts", async (t) => {
  const { install, bundle } = await airGap(t);
  await rm(join(install.directory, "agent", "identity.json"));

  const { lines } = await run("load", "--file", bundle, "--directory", install.directory);

  assert.equal(lines.at(-1)?.code, "conflict");
  assert.deepEqual(await contentOf(install.directory), []);
});

test("an install whose registry does not answer is said to be unreachable", async (t) => {
  const { install, bundle } = await airGap(t);
  await install.stop();

  const { lines } = await run("load", "--file", bundle, "--directory", install.directory);

  assert.equal(lines.at(-1)?.code, "unavailable");
  assert.deepEqual(await workLeft(install.directory), []);
});

test("where no install is, nothing is loaded", async (t) => {
  const { bundle } = await airGap(t);

  const { lines } = await run("load", "--file", bundle, "--directory", await temporaryDirectory(t));

  assert.equal(lines.at(-1)?.code, "not_found");
});

async function airGap(t: TestContext, signedBy: KeyObject | null = vendor.privateKey) {
  const directory = await temporaryDirectory(t);
  const content = join(directory, "vendor");
  const release = await writeRelease(createRegistryFiles(content), signedBy);
  const auth = { kind: "anonymous" } as const;
  const registry = await serveRegistry({ directory: content, host: "127.0.0.1", port: 0, auth });
  t.after(() => registry.close());

  let count = 0;
  const write = async () => {
    const file = join(directory, `bundle-${count++}.oci.tar`);
    const source = ["--registry", registry.url, "--repository", repository];
    const { code, lines } = await run(
      "write",
      ...source,
      "--digest",
      release.digest,
      "--file",
      file,
    );
    assert.equal(code, 0, JSON.stringify(lines));
    return file;
  };
  return { release, write, bundle: await write(), install: await createInstall(t) };
}

async function writeRelease(store: ContentStore, signedBy: KeyObject | null) {
  const entries: Descriptor[] = [];
  for (const { name, repository: home } of materials) {
    const layer = await writeBlobBytes(
      store,
      repository,
      MEDIA_TYPES.files,
      Buffer.alloc(5_000, name),
    );
    const config = await writeBlobBytes(store, repository, MEDIA_TYPES.empty, Buffer.from("{}"));
    const mediaType = MEDIA_TYPES.manifest;
    const made = await writeDocument(
      { store, repository },
      { schemaVersion: 2, mediaType, config, layers: [layer] },
    );
    const annotations = { "dev.exclave.material": name, "dev.exclave.repository": home };
    entries.push({ ...made, annotations });
  }
  const { digest } = await writeDocument(
    { store, repository, tag: "r-1" },
    {
      schemaVersion: 2,
      mediaType: MEDIA_TYPES.index,
      artifactType: RELEASE_TYPE,
      manifests: entries,
      annotations: {
        "org.opencontainers.image.title": "shop",
        "org.opencontainers.image.version": "1",
        "dev.exclave.release": "r-1",
      },
    },
  );
  if (signedBy) await signArtifact({ store, repository, digest, signer: createSigner(signedBy) });
  return { digest, entries };
}

/** An install's home as its sandbox and its agent leave it, and its registry running. */
async function createInstall(t: TestContext) {
  const directory = await temporaryDirectory(t);
  const content = join(directory, "registry", "content");
  await mkdir(content, { recursive: true });
  await mkdir(join(directory, "agent"));
  const token = generateKeyPairSync("ed25519");
  const names = { issuer: "exclave-acme", service: "acme" };
  const registry = await serveRegistry({
    directory: content,
    host: "127.0.0.1",
    port: 0,
    auth: { kind: "token", realm: "https://none.invalid", publicKeys: [token.publicKey], ...names },
  });
  let isUp = true;
  const stop = async () => {
    if (isUp) await registry.close();
    isUp = false;
  };
  t.after(stop);
  const pem = token.privateKey.export({ type: "pkcs8", format: "pem" });
  await writeFile(join(directory, "registry", "token.key"), pem);
  const contract = { version: 1, install: "acme", registry: { url: registry.url, ...names } };
  await writeFile(join(directory, "sandbox.json"), JSON.stringify(contract));
  const spki = vendor.publicKey.export({ type: "spki", format: "der" }).toString("base64");
  const identity = { keys: { release: { keyid: "k", spki } } };
  await writeFile(join(directory, "agent", "identity.json"), JSON.stringify(identity));
  return { directory, stop, store: createRegistryFiles(content) };
}

interface Line {
  readonly type: string;
  readonly [key: string]: unknown;
}

function run(...args: string[]): Promise<{ code: number; lines: Line[] }> {
  const main = join(import.meta.dirname, "../release-bundle-main.ts");
  return new Promise((resolve) => {
    execFile(process.execPath, [main, ...args], { env: {} }, (reason, stdout) => {
      const lines = stdout.split("\n").filter(Boolean);
      const code = reason ? Number(reason.code) : 0;
      resolve({ code, lines: lines.map((line) => JSON.parse(line) as Line) });
    });
  });
}

async function contentOf(directory: string): Promise<string[]> {
  const found = await readdir(join(directory, "registry", "content"), {
    recursive: true,
    withFileTypes: true,
  });
  return found.filter((entry) => entry.isFile()).map(({ name }) => name);
}

async function workLeft(directory: string): Promise<string[]> {
  return (await readdir(join(directory, "registry"))).filter((name) => name.startsWith("load-"));
}

async function someBlob(directory: string): Promise<string> {
  const blobs = join(directory, "blobs/sha256");
  const [name = ""] = await readdir(blobs);
  return join(blobs, name);
}
