// What a build brings along: the providers its lock file names, checked, and modules from elsewhere.

import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { describe, type TestContext as NodeTest, test } from "node:test";
import { Failure, type ModuleBuild } from "@exclave/plugin-sdk";
import type { TestContextOptions } from "@exclave/plugin-sdk/testing";
import { ownPlatform } from "./bundle-providers.ts";
import { parseLockFile } from "./lock-file.ts";
import {
  type ModuleUnderTest,
  moduleUnderTest,
  NO_TOOL,
  TOOLS,
} from "./testing/module-under-test.ts";
import { HOST, startProviderRegistry } from "./testing/provider-registry.ts";
import {
  ADDRESS,
  layOut,
  lockFor,
  PROGRAM,
  readText,
  sampleProvider,
  VERSION,
} from "./testing/sample-provider.ts";

const MAIN = { "main.tf": 'output "o" { value = 1 }\n' };
const OWN = ownPlatform();
const OTHER = OWN === "linux_arm64" ? "linux_amd64" : "linux_arm64";
const WRONG = `h1:${"A".repeat(43)}=`;

async function directory(t: NodeTest): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), "exclave-bundle-"));
  t.after(() => rm(path, { recursive: true, force: true }));
  return path;
}

/** Writes a module that locks the sample provider, which lies in the module's own mirror. */
async function locking(t: NodeTest, hashes?: (own: string) => readonly string[]) {
  const module = await moduleUnderTest(t);
  await module.write(MAIN);
  const files = join(module.directory, "files");
  const { hash } = await sampleProvider(join(files, ".exclave/providers"));
  await writeFile(join(files, ".terraform.lock.hcl"), lockFor(hashes?.(hash) ?? [hash]));
  return { module, files, hash };
}

async function build(module: ModuleUnderTest, options?: TestContextOptions): Promise<ModuleBuild> {
  const { build: made } = await module.run("build", options);
  assert.ok(made?.kind === "module");
  return made;
}

function useMachineConfig(t: NodeTest, file: string): void {
  const before = process.env.TF_CLI_CONFIG_FILE;
  process.env.TF_CLI_CONFIG_FILE = file;
  t.after(() => {
    if (before === undefined) delete process.env.TF_CLI_CONFIG_FILE;
    else process.env.TF_CLI_CONFIG_FILE = before;
  });
}

function invalid(message: RegExp): (reason: unknown) => boolean {
  return (reason) => {
    assert.ok(reason instanceof Failure, String(reason));
    assert.equal(reason.code, "invalid");
    assert.match(reason.message, message);
    return true;
  };
}

describe("the providers of a build", { skip: NO_TOOL }, () => {
  test("are those the lock file names, and no part of the module itself", async (t) => {
    const { module, files } = await locking(t);

    const made = await build(module);

    const path = join(files, ".exclave/providers", ADDRESS, VERSION, OWN);
    assert.deepEqual(made.providers, [{ address: ADDRESS, version: VERSION, platform: OWN, path }]);
    const names = await readdir(made.directory, { recursive: true });
    assert.ok(!names.some((name) => name.includes(PROGRAM)), names.join());
  });

  test("that are missing fail the build by name", async (t) => {
    const { module, files } = await locking(t);
    const address = "registry.terraform.io/acme/absent";
    await writeFile(join(files, ".terraform.lock.hcl"), lockFor([WRONG], address));

    await assert.rejects(
      module.run("build"),
      invalid(new RegExp(`provider ${address} ${VERSION} for ${OWN}.*cannot be had`)),
    );
  });

  test("that are not what the lock file pins fail the build by name", async (t) => {
    const { module } = await locking(t, () => [WRONG]);

    await assert.rejects(
      module.run("build"),
      invalid(
        new RegExp(`provider ${ADDRESS} ${VERSION} for ${OWN} has a hash .* not list \\(h1:`),
      ),
    );
  });

  test("that lack a platform fail the build with the platform's name", async (t) => {
    const { module } = await locking(t);

    await assert.rejects(
      module.run("build", { config: { platforms: [OWN, OTHER] } }),
      invalid(new RegExp(`for ${OTHER}.*cannot be had`)),
    );
  });

  test("are brought for every platform asked for, and each has its hash in the lock file", async (t) => {
    const { module, files, hash } = await locking(t);
    const other = await sampleProvider(join(files, ".exclave/providers"), OTHER);
    await writeFile(join(files, ".terraform.lock.hcl"), lockFor([hash, other.hash]));

    const both = await build(module, { config: { platforms: [OWN, OTHER] } });
    assert.deepEqual(
      both.providers?.map(({ platform }) => platform).toSorted(),
      [OTHER, OWN].toSorted(),
    );

    const one = await build(module, { config: { platforms: [OTHER] } });
    assert.deepEqual(
      one.providers?.map(({ platform }) => platform),
      [OTHER],
    );
  });

  test("can lie elsewhere in the source, which is then no part of the module", async (t) => {
    const module = await moduleUnderTest(t);
    await module.write(MAIN);
    const files = join(module.directory, "files");
    const { hash } = await sampleProvider(join(files, "vendor/providers"));
    await writeFile(join(files, ".terraform.lock.hcl"), lockFor([hash]));

    const made = await build(module, { config: { providersFrom: "vendor/providers" } });

    assert.equal(made.providers?.length, 1);
    const names = await readdir(made.directory, { recursive: true });
    assert.ok(!names.includes("vendor/providers"), names.join());
    await assert.rejects(
      module.run("build", { config: { providersFrom: "elsewhere" } }),
      invalid(/providersFrom: there is no directory elsewhere/),
    );
  });

  for (const providersFrom of [".exclave/providers", ".terraform/providers"]) {
    test(`can lie in ${providersFrom}, where the source has it`, async (t) => {
      const module = await moduleUnderTest(t);
      await module.write(MAIN);
      const files = join(module.directory, "files");
      const { hash } = await sampleProvider(join(files, providersFrom));
      await writeFile(join(files, ".terraform.lock.hcl"), lockFor([hash]));

      const made = await build(module, { config: { providersFrom } });

      const path = join(files, providersFrom, ADDRESS, VERSION, OWN);
      assert.deepEqual(
        made.providers?.map((provider) => provider.path),
        [path],
      );
      const names = await readdir(made.directory, { recursive: true });
      assert.ok(!names.some((name) => name.includes(PROGRAM)), names.join());
    });
  }

  test("in a .terraform that did not come with the source fail the build, which says where to put them", async (t) => {
    const module = await moduleUnderTest(t);
    await module.write(MAIN);

    await assert.rejects(
      module.run("build", { config: { providersFrom: ".terraform/providers" } }),
      invalid(
        /no directory \.terraform\/providers; \.terraform is never part of the source, .* (terraform|tofu) providers mirror vendor\/providers$/,
      ),
    );
  });

  test("come from the machine's mirrors too, where the lock file pins them", async (t) => {
    const module = await moduleUnderTest(t);
    await module.write(MAIN);
    const place = await directory(t);
    const { hash } = await sampleProvider(join(place, "mirror"));
    const config = `provider_installation {\n  filesystem_mirror {\n    path = "${place}/mirror"\n  }\n}\n`;
    await writeFile(join(place, "rc"), config);
    useMachineConfig(t, join(place, "rc"));

    assert.deepEqual((await build(module)).providers, []);
    await writeFile(join(module.directory, "files", ".terraform.lock.hcl"), lockFor([hash]));
    assert.equal((await build(module)).providers?.length, 1);
  });

  const noZip = spawnSync("zip", ["-v"]).status !== 0 && "zip is not installed";
  test("can be archives that are pinned by the archive's own hash", { skip: noZip }, async (t) => {
    const { module, files, hash } = await locking(t);
    const mirror = join(files, ".exclave/providers", ADDRESS);
    const archive = join(mirror, `terraform-provider-thing_${VERSION}_${OWN}.zip`);
    execFileSync("zip", ["-q", archive, PROGRAM], { cwd: join(mirror, VERSION, OWN) });
    const zh = `zh:${createHash("sha256")
      .update(await readFile(archive))
      .digest("hex")}`;
    await writeFile(join(files, ".terraform.lock.hcl"), lockFor([zh]));

    const made = await build(module);

    assert.equal(made.providers?.[0]?.path, archive);
    // Jobs have it unpacked, and the tool knows unpacked files by the other kind of hash.
    const lock = parseLockFile(await readText(made.directory, ".terraform.lock.hcl"));
    assert.deepEqual(lock[0]?.hashes.toSorted(), [hash, zh]);

    await writeFile(archive, "changed");
    await assert.rejects(module.run("build"), invalid(/cannot be read/));
  });
});

const noRegistry =
  ["gpg", "zip"].find((program) => spawnSync(program, ["--version"]).error !== undefined) ?? false;
for (const tool of TOOLS) {
  test(`with ${tool}, what no mirror has is fetched from its registry when the component asks for it`, {
    skip: noRegistry && `${noRegistry} is not installed`,
  }, async (t) => {
    const module = await moduleUnderTest(t, tool);
    const { address, configFile, hash, requests } = await startProviderRegistry(
      t,
      await directory(t),
    );
    await module.write({ ...MAIN, ".terraform.lock.hcl": lockFor([hash], address) });
    useMachineConfig(t, configFile);

    await assert.rejects(module.run("build"), invalid(/cannot be had/));
    assert.deepEqual(requests, [], "nobody is asked unless told to");

    const { providers } = await build(module, { config: { fetchProviders: true } });
    assert.equal(providers?.[0]?.address, address);
    assert.match(providers?.[0]?.path ?? "", /\.zip$/);

    const wrong = lockFor([`zh:${"0".repeat(64)}`], address);
    await module.write({ ...MAIN, ".terraform.lock.hcl": wrong });
    const refused = module.run("build", { config: { fetchProviders: true } });
    await assert.rejects(refused, invalid(/has a hash that the lock file does not list/));

    const absent = lockFor([hash], `${HOST}/acme/absent`);
    await module.write({ ...MAIN, ".terraform.lock.hcl": absent });
    const failed = module.run("build", { config: { fetchProviders: true } });
    await assert.rejects(failed, /acme\/absent 1\.2\.3 for .* cannot be fetched/);
  });
}

const noGit = spawnSync("git", ["--version"]).status !== 0 && "git is not installed";

/** A repository with these files; returns where it lies. */
async function repositoryOf(t: NodeTest, files: Readonly<Record<string, string>>): Promise<string> {
  const repository = join(await directory(t), "repository");
  for (const [name, content] of Object.entries(files)) {
    await mkdir(dirname(join(repository, name)), { recursive: true });
    await writeFile(join(repository, name), content);
  }
  const git = (...args: string[]) => execFileSync("git", ["-C", repository, ...args]);
  git("init", "-q");
  git("add", ".");
  git("-c", "user.name=a", "-c", "user.email=a@example.invalid", "commit", "-qm", "one");
  return repository;
}

for (const tool of TOOLS) {
  test(`with ${tool}, a module from a repository is brought along and needed no more`, {
    skip: noGit,
  }, async (t) => {
    const module = await moduleUnderTest(t, tool);
    const repository = await repositoryOf(t, {
      "network/main.tf":
        'module "inner" {\n  source = "./inner"\n}\noutput "name" {\n  value = module.inner.name\n}\n',
      "network/inner/main.tf": 'output "name" {\n  value = "fetched"\n}\n',
    });
    await module.write({ "main.tf": callOf(`git::file://${repository}//network`) });

    const made = await build(module);
    const artifact = await layOut(made, join(module.directory, "artifact"));
    const names = await readdir(artifact, { recursive: true });
    assert.ok(!names.some((name) => name.split("/").includes(".git")), names.join());
    await assert.rejects(
      module.run("plan"),
      invalid(/the module net comes from git::.* was not brought along/),
      "an install takes no module from elsewhere, even where it could",
    );
    await rename(repository, `${repository}.gone`);

    const { outputs } = await module.deploy({ files: artifact });
    assert.deepEqual(outputs, { name: "fetched" });
    assert.equal((await module.run("status")).status?.health, "healthy");
  });

  test(`with ${tool}, a module is brought along with its own files named as the tool's list`, {
    skip: noGit,
  }, async (t) => {
    const module = await moduleUnderTest(t, tool);
    const names = '[for file in fileset(path.module, "**/modules.json") : file]';
    const repository = await repositoryOf(t, {
      "main.tf": `output "name" {\n  value = join(" ", ${names})\n}\n`,
      "modules.json": "{}",
      "data/modules.json": "{}",
    });
    await module.write({ "main.tf": callOf(`git::file://${repository}`) });

    const artifact = await layOut(await build(module), join(module.directory, "artifact"));

    const { outputs } = await module.deploy({ files: artifact });
    assert.deepEqual(outputs, { name: "data/modules.json modules.json" });
  });

  test(`with ${tool}, a module that lives on what is not brought along fails the build`, {
    skip: noGit,
  }, async (t) => {
    const module = await moduleUnderTest(t, tool);
    const repository = await repositoryOf(t, {
      "main.tf": `output "name" {\n  value = file("\${path.module}/.git/HEAD")\n}\n`,
    });
    await module.write({ "main.tf": callOf(`git::file://${repository}`) });

    await assert.rejects(module.run("build"), invalid(/the module is not valid: .*\.git\/HEAD/));
  });
}

for (const tool of TOOLS) {
  test(`with ${tool}, an install asks nobody for a module that did not come along`, async (t) => {
    const module = await moduleUnderTest(t, tool);
    await module.write({
      "main.tf": callOf("./local"),
      "local/main.tf": 'output "name" {\n  value = "local"\n}\n',
    });
    const artifact = await layOut(await build(module), join(module.directory, "artifact"));
    assert.deepEqual((await module.deploy({ files: artifact })).outputs, { name: "local" });
    const { address, asked } = await startListener(t);
    await writeFile(join(artifact, "main.tf"), callOf(`${address}/acme/net/null`));

    await assert.rejects(
      module.run("plan", { files: artifact }),
      invalid(/the module net was not brought along by the build .* build again with/),
    );
    assert.equal(asked(), 0);
  });

  test(`with ${tool}, an artifact from before builds kept a list of local modules has them still`, async (t) => {
    const module = await moduleUnderTest(t, tool);
    await module.write({
      "main.tf": callOf("./local"),
      "local/main.tf": 'output "name" {\n  value = "local"\n}\n',
    });
    const artifact = await layOut(await build(module), join(module.directory, "artifact"));
    await rm(join(artifact, ".exclave"), { recursive: true });

    assert.deepEqual((await module.deploy({ files: artifact })).outputs, { name: "local" });
  });

  test(`with ${tool}, a module from a registry is known by the tool's own address for it`, async (t) => {
    const module = await moduleUnderTest(t, tool);
    const hosts = { terraform: "registry.terraform.io", tofu: "registry.opentofu.org" };
    const brought = (host: string) => ({
      "main.tf": callOf("acme/net/null"),
      ".exclave/modules/net/main.tf": 'output "name" {\n  value = "brought"\n}\n',
      ".exclave/modules/modules.json": JSON.stringify({
        Modules: [
          { Key: "", Source: "", Dir: "." },
          {
            Key: "net",
            Source: `${host}/acme/net/null`,
            Version: "1.0.0",
            Dir: ".exclave/modules/net",
          },
        ],
      }),
    });

    await module.write(brought(hosts[tool === "tofu" ? "terraform" : "tofu"]));
    await assert.rejects(
      module.run("plan"),
      invalid(new RegExp(`the module net was not brought .* as ${tool} asks for it`)),
    );
    await module.write(brought(hosts[tool]));
    assert.deepEqual((await module.deploy()).outputs, { name: "brought" });
  });
}

/** Counts who knocks, and lets nobody in. */
async function startListener(t: NodeTest) {
  let asked = 0;
  const server = createServer((socket) => {
    asked++;
    socket.destroy();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  const { port } = server.address() as AddressInfo;
  return { address: `127.0.0.1:${port}`, asked: () => asked };
}

function callOf(source: string): string {
  return `module "net" {\n  source = "${source}"\n}\noutput "name" {\n  value = module.net.name\n}\n`;
}
