import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { chmod, mkdir, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { digestOf, Failure } from "@exclave/core";
import { createLayoutStore, createRegistryClient, packImage, serveRegistry } from "@exclave/oci";
import { createTreeSeals } from "@exclave/runtime";
import { openOwnRegistry, readSandbox } from "../sandbox/sandbox.ts";
import { ACME } from "../testing/builders.ts";
import { temporaryDirectory } from "../testing/temporary-directory.ts";
import { createRegistryImages } from "./image-source.ts";
import { publishImages } from "./publish-images.ts";

const REPOSITORY = "exclave/runner";

/** A registry that lets in who has a token of this install, and a layout with one image. */
async function place(t: TestContext) {
  const home = await temporaryDirectory(t);
  const { publicKey, privateKey } = generateKeyPairSync("ed25519");
  const registry = await serveRegistry({
    directory: join(home, "content"),
    host: "127.0.0.1",
    port: 0,
    auth: {
      kind: "token",
      realm: "http://127.0.0.1/token",
      service: "registry-acme",
      issuer: "install-acme",
      publicKeys: [publicKey],
    },
  });
  t.after(() => registry.close());

  const keyPath = join(home, "token.key");
  await writeFile(keyPath, privateKey.export({ format: "pem", type: "pkcs8" }).toString());
  const contract = join(home, "sandbox.json");
  await writeFile(
    contract,
    JSON.stringify({
      version: 1,
      kind: "local",
      install: { id: ACME, name: "acme" },
      registry: { url: registry.url, issuer: "install-acme", service: "registry-acme" },
      runtime: { type: "process", directory: join(home, "runtime") },
    }),
  );
  const sandbox = await readSandbox(contract);
  const own = await openOwnRegistry({
    sandbox,
    keyPath,
    install: "acme",
    name: "acme",
    now: Date.now,
  });
  return { home, own, images: await shippedImages(home) };
}

async function shippedImages(home: string) {
  const directory = join(home, "images");
  const program = join(home, "program");
  await mkdir(directory);
  await writeFile(program, "#!/bin/sh\necho hello\n", { mode: 0o755 });
  const { digest } = await packImage({
    store: createLayoutStore({ directory }),
    repository: REPOSITORY,
    layers: [{ files: [{ path: "bin/program", from: program, executable: true }] }],
    config: { entrypoint: ["/bin/program"], command: ["now"], env: ["A=1"] },
  });
  const list = [{ name: "runner", kind: "runner", repository: REPOSITORY, digest }];
  await writeFile(join(directory, "images.json"), JSON.stringify(list));
  return { directory, digest };
}

function grantOf(url: string, token: string) {
  return { registryUrl: url, token, expiresAt: Date.now() + 60_000 };
}

test("shipped images are published, and come out of the registry as they went in", async (t) => {
  const { home, own, images } = await place(t);
  const push = await own.token([
    { type: "repository", name: REPOSITORY, actions: ["pull", "push"] },
  ]);

  const published = await publishImages(images.directory, grantOf(own.url, push), { origins: [] });
  const again = await publishImages(images.directory, grantOf(own.url, push), { origins: [] });

  assert.deepEqual(
    published.map(({ digest }) => digest),
    [images.digest],
  );
  assert.deepEqual(again, published);
  const token = await own.token([{ type: "repository", name: REPOSITORY, actions: ["pull"] }]);
  const root = join(home, "root");
  await mkdir(root);
  const ref = { registryUrl: own.url, repository: REPOSITORY, digest: images.digest, token };
  const said: string[] = [];
  const source = createRegistryImages({
    baseLayers: join(home, "base-layers"),
    seals: createTreeSeals(),
    onImageChanged: async (because) => void said.push(because),
  });
  const config = await source.unpack(ref, root);
  assert.deepEqual(config, { entrypoint: ["/bin/program"], cmd: ["now"], env: ["A=1"] });
  assert.match(await readFile(join(root, "bin", "program"), "utf8"), /echo hello/);

  await source.unpack(ref, join(home, "second"));
  const [first, second] = await Promise.all(
    ["root", "second"].map((name) => stat(join(home, name, "bin", "program"))),
  );
  assert.equal(first?.ino, second?.ino, "the base layer is on disk once");

  const [layer] = (await readdir(join(home, "base-layers"))).filter(
    (name) => !name.endsWith(".seal"),
  );
  const shared = join(home, "base-layers", layer ?? "", "bin", "program");
  assert.equal((await stat(shared)).mode & 0o222, 0, "nobody may write to it");
  assert.deepEqual(said, []);
  await chmod(shared, 0o755);
  await writeFile(shared, "#!/bin/sh\necho evil\n");
  await source.unpack(ref, join(home, "third"));
  const third = await readFile(join(home, "third", "bin", "program"), "utf8");
  assert.match(third, /echo hello/, "a base layer that was changed is unpacked again");
  assert.equal(said.length, 1);
  assert.match(said[0] ?? "", /the unpacked base layer sha256:[0-9a-f]+ was changed/);
});

test("a token opens the repositories it names, for what it says, and no others", async (t) => {
  const { own, images } = await place(t);
  const pull = await own.token([{ type: "repository", name: REPOSITORY, actions: ["pull"] }]);

  await assert.rejects(
    publishImages(images.directory, grantOf(own.url, pull), { origins: [] }),
    Failure,
  );
  const client = createRegistryClient({ url: own.url, token: pull });
  t.after(() => client.close());
  assert.equal(await client.headManifest(REPOSITORY, images.digest), undefined);
  await assert.rejects(client.headManifest("apps/crm/api", images.digest), Failure);
});

test("an image that is not there is a failure, not an empty directory", async (t) => {
  const { home, own } = await place(t);
  const token = await own.token([{ type: "repository", name: REPOSITORY, actions: ["pull"] }]);
  const digest = digestOf("nothing");

  const unpacked = createRegistryImages({
    baseLayers: join(home, "base-layers"),
    seals: createTreeSeals(),
  }).unpack({ registryUrl: own.url, repository: REPOSITORY, digest, token }, join(home, "root"));

  await assert.rejects(
    unpacked,
    (reason) => reason instanceof Failure && reason.code === "not_found",
  );
});

test("a list of images or a contract that is none is refused by name", async (t) => {
  const home = await temporaryDirectory(t);
  await writeFile(join(home, "images.json"), "[{}]");
  await writeFile(join(home, "sandbox.json"), "{}");

  await assert.rejects(
    publishImages(home, grantOf("http://127.0.0.1:1", "t"), { origins: [] }),
    /images\.json is no list/,
  );
  await assert.rejects(readSandbox(join(home, "sandbox.json")), /not a sandbox's contract/);
  await assert.rejects(readSandbox(join(home, "none.json")), /there is no sandbox/);
});

test("a contract's prefixes are empty or names of repositories, and default to none", async (t) => {
  const path = join(await temporaryDirectory(t), "sandbox.json");
  const readWith = async (share: object) => {
    const contract = {
      version: 1,
      kind: "local",
      install: { id: ACME, name: "acme" },
      registry: { url: "http://127.0.0.1:1", issuer: "i", service: "s", ...share },
      runtime: { type: "process", directory: "runtime" },
    };
    await writeFile(path, JSON.stringify(contract));
    const { repository, mountFrom } = (await readSandbox(path)).registry;
    return { repository, mountFrom };
  };
  const share = { repository: "installs/globex", mountFrom: ["acme", ""] };

  assert.deepEqual(await readWith({}), { repository: "", mountFrom: [] });
  assert.deepEqual(await readWith(share), share);
  for (const repository of ["/globex", "globex/", "../acme", "Globex"]) {
    await assert.rejects(readWith({ repository }), /not a sandbox's contract/);
    await assert.rejects(readWith({ mountFrom: [repository] }), /not a sandbox's contract/);
  }
});
