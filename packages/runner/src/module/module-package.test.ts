import assert from "node:assert/strict";
import { chmod, mkdir, readdir, readFile, stat, utimes, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { type TestContext, test } from "node:test";
import type { Digest } from "@exclave/core";
import {
  artifactFormat,
  type ContentStore,
  createMemoryStore,
  type ImageManifest,
  parseManifest,
} from "@exclave/oci";
import { temporaryDirectory } from "../testing/temporary-directory.ts";
import { packModule, parseModulePackage, unpackModule } from "./module-package.ts";
import { packProviderIndex } from "./terraform-provider.ts";
import { createZip } from "./zip-writer.ts";

const repository = "apps/shop/api";
const ADDRESS = "registry.terraform.io/hashicorp/local";

async function tree(t: TestContext, files: Record<string, string>): Promise<string> {
  const directory = await temporaryDirectory(t);
  for (const [name, content] of Object.entries(files)) {
    await mkdir(dirname(join(directory, name)), { recursive: true });
    await writeFile(join(directory, name), content);
  }
  return directory;
}

async function provider(t: TestContext, content: string, platform = "linux_amd64") {
  const directory = await tree(t, { "terraform-provider-local_v1.4.0": content });
  await chmod(join(directory, "terraform-provider-local_v1.4.0"), 0o755);
  return { address: ADDRESS, version: "1.4.0", platform, path: directory };
}

async function manifestOf(store: ContentStore, reference: string): Promise<ImageManifest> {
  const { bytes, mediaType } = await store.readManifest(repository, reference);
  const parsed = parseManifest(bytes, mediaType);
  assert.ok(parsed.kind === "manifest");
  return parsed.manifest;
}

test("modules and providers have the same digest for the same files at any time, anywhere", async (t) => {
  const files = { "main.tf": "# a\n", "modules/network/main.tf": "# b\n" };
  const one = await tree(t, files);
  const two = await tree(t, files);
  await utimes(join(two, "main.tf"), 1, 1);
  const pack = async (directory: string) => {
    const target = { store: createMemoryStore(), repository, directory };
    const providers = [await provider(t, "amd"), await provider(t, "arm", "linux_arm64")];
    const made = [
      await packModule({ ...target, providers }),
      await packProviderIndex({ ...target, packages: providers.toReversed() }),
    ];
    return made.map(({ digest }) => digest);
  };

  const here = await pack(one);
  const zone = process.env["TZ"];
  t.after(() => setZone(zone));
  setZone("Asia/Tokyo");
  assert.deepEqual(await pack(two), here);
});

function setZone(zone: string | undefined): void {
  if (zone === undefined) delete process.env["TZ"];
  else process.env["TZ"] = zone;
}

test("a module and a provider say which format they are in", async (t) => {
  const store = createMemoryStore();
  const directory = await tree(t, { "main.tf": "" });
  const made = {
    module: packModule({ store, repository, directory }),
    provider: packProviderIndex({ store, repository, packages: [await provider(t, "x")] }),
  };
  for (const [format, packing] of Object.entries(made)) {
    const { bytes, mediaType } = await store.readManifest(repository, (await packing).digest);
    assert.equal(artifactFormat(parseManifest(bytes, mediaType)), format);
  }
});

test("a module has one zip layer and a layer per provider, which come back as a mirror", async (t) => {
  const store = createMemoryStore();
  const directory = await tree(t, { "main.tf": "# main\n", "m/main.tf": "# m\n" });
  const providers = [await provider(t, "arm", "linux_arm64"), await provider(t, "amd")];

  const { digest } = await packModule({ store, repository, directory, providers });

  const manifest = await manifestOf(store, digest);
  assert.equal(manifest.artifactType, "application/vnd.opentofu.modulepkg");
  assert.deepEqual(
    manifest.layers.map(({ mediaType }) => mediaType),
    [
      "archive/zip",
      "application/vnd.exclave.tfprovider.v1+zip",
      "application/vnd.exclave.tfprovider.v1+zip",
    ],
  );
  const to = join(await temporaryDirectory(t), "files");
  const fetched: Digest[] = [];
  const watched: ContentStore = {
    ...store,
    readBlob(name, blob, options) {
      fetched.push(blob);
      return store.readBlob(name, blob, options);
    },
  };
  await unpackModule({
    store: watched,
    repository,
    digest,
    directory: to,
    platform: "linux_amd64",
  });
  const files = await readdir(to, { recursive: true, withFileTypes: true });
  const program = `.exclave/providers/${ADDRESS}/1.4.0/linux_amd64/terraform-provider-local_v1.4.0`;
  assert.deepEqual(
    files
      .filter((file) => file.isFile())
      .map((file) => join(file.parentPath, file.name).slice(to.length + 1))
      .toSorted(),
    [program, "m/main.tf", "main.tf"],
  );
  assert.equal(await readFile(join(to, program), "utf8"), "amd");
  assert.equal((await stat(join(to, program))).mode & 0o777, 0o755);
  assert.equal(fetched.length, 2, "what is for another platform is not fetched");
  assert.deepEqual(await readdir(dirname(to)), ["files"], "no archive is left behind");
});

test("a provider that is an archive already is kept byte by byte, and stored once", async (t) => {
  const store = createMemoryStore();
  const directory = await tree(t, { "main.tf": "# main\n" });
  const unpacked = await provider(t, "program");
  await using archive = await createZip(unpacked.path, { mediaType: "x", compressionLevel: 1 });
  const path = join(await temporaryDirectory(t), "given.zip");
  await writeFile(path, archive.open(0));
  const packed = { ...unpacked, path };

  const module = await packModule({ store, repository, directory, providers: [packed] });
  await packProviderIndex({ store, repository, packages: [packed] });

  const { providers } = parseModulePackage(await manifestOf(store, module.digest));
  assert.equal(providers[0]?.layer.digest, archive.descriptor.digest);
  const { bytes, mediaType } = await store.readManifest(repository, "1.4.0");
  const parsed = parseManifest(bytes, mediaType);
  assert.ok(parsed.kind === "index");
  const [target] = parsed.index.manifests;
  assert.deepEqual(target?.platform, { os: "linux", architecture: "amd64" });
  const { layers } = await manifestOf(store, target?.digest ?? "");
  assert.deepEqual(
    layers.map((layer) => [layer.mediaType, layer.digest]),
    [["archive/zip", archive.descriptor.digest]],
  );
});

test("a module that has no provider for this platform says so", async (t) => {
  const store = createMemoryStore();
  const directory = await tree(t, { "main.tf": "" });
  const providers = [await provider(t, "arm", "linux_arm64")];
  const { digest } = await packModule({ store, repository, directory, providers });
  const to = join(await temporaryDirectory(t), "files");

  const unpacking = unpackModule({
    store,
    repository,
    digest,
    directory: to,
    platform: "linux_amd64",
  });

  await assert.rejects(
    unpacking,
    /brings .*hashicorp\/local for linux_arm64 and not for linux_amd64/,
  );
});

for (const [what, change] of Object.entries({
  address: { address: "../../etc/passwd" },
  version: { version: "../1.0.0" },
  platform: { platform: "linux/amd64" },
})) {
  test(`a provider whose ${what} could lead elsewhere is refused`, async (t) => {
    const directory = await tree(t, { "main.tf": "" });
    const providers = [{ ...(await provider(t, "x")), ...change }];

    const packing = packModule({ store: createMemoryStore(), repository, directory, providers });

    await assert.rejects(packing, { code: "invalid" });
  });
}

test("an index holds one version of one provider", async (t) => {
  const other = { ...(await provider(t, "x", "linux_arm64")), version: "1.5.0" };

  const packing = packProviderIndex({
    store: createMemoryStore(),
    repository,
    packages: [await provider(t, "x"), other],
  });

  await assert.rejects(packing, /hashicorp\/local 1\.5\.0 is not .*1\.4\.0/);
});
