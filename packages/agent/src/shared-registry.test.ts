// Installs that share one registry, each under a prefix of its own. The registry, the runner and the
// processes are real; the server is not needed for any of it.

import assert from "node:assert/strict";
import { generateKeyPairSync, type KeyObject } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { fileURLToPath } from "node:url";
import type { Grant } from "@exclave/api";
import { evaluateConfig, type ManifestStep, REPOSITORY_ANNOTATION } from "@exclave/core";
import {
  type ContentStore,
  copyArtifact,
  createRegistryFiles,
  createSigner,
  packImage,
  packIndex,
  serveRegistry,
  signArtifact,
} from "@exclave/oci";
import { openPlace } from "./compose.ts";
import { createJobs } from "./jobs.ts";
import { createMemoryJournal } from "./journal/memory-journal.ts";
import { createSpool } from "./spool.ts";
import { job, recordOf, silentLog, spkiOf } from "./testing/builders.ts";
import { temporaryDirectory } from "./testing/temporary-directory.ts";

const RUNNER = fileURLToPath(new URL("../../runner/src/main.ts", import.meta.url));
const NAMES = { issuer: "installs", service: "shared-registry" };
const PATH = "/usr/bin:/bin";

test("a second install of a release mounts what the first one brought, and runs from its own", async (t) => {
  const { release, open, shared } = await sharedRegistry(t);
  const acme = await open("acme");
  const globex = await open("globex", ["acme"]);

  const first = await acme.sync();
  const second = await globex.sync();
  const applied = await globex.apply();

  assert.deepEqual(first.outcome, { kind: "succeeded" });
  assert.deepEqual(second.outcome, { kind: "succeeded" });
  assert.ok(bytesCopied(first) > 0);
  assert.deepEqual(
    second.artifacts.map(({ repository, copiedBytes }) => [repository, copiedBytes]),
    release.materials.map(({ repository }) => [`globex/${repository}`, 0]),
  );
  assert.deepEqual(applied.outcome, { kind: "succeeded" });
  const said = applied.outputs.map(({ value }) => value);
  assert.deepEqual(said, [`globex/${release.artifact.repository}`]);
  const places = await shared.repositories();
  assert.ok(
    places.every((name) => /^(acme|globex)\//.test(name)),
    places.join(),
  );
});

test("what an install may not read it copies, and what another one has is not its own", async (t) => {
  const { release, open } = await sharedRegistry(t);
  const acme = await open("acme");
  const initech = await open("initech");
  await acme.sync();

  const early = await initech.launchApply();
  const synced = await initech.sync();

  assert.equal(early.kind === "not_launched" && early.why.code, "not_synced");
  assert.deepEqual(synced.outcome, { kind: "succeeded" });
  const copied = synced.artifacts.filter(({ copiedBytes = 0 }) => copiedBytes > 0);
  assert.deepEqual(
    copied.map(({ name }) => name),
    release.materials.filter(({ name }) => name !== "runner").map(({ name }) => name),
  );
});

function bytesCopied({
  artifacts,
}: {
  artifacts: readonly { copiedBytes?: number | undefined }[];
}) {
  return artifacts.reduce((sum, { copiedBytes = 0 }) => sum + copiedBytes, 0);
}

/** A vendor with a signed release, and a registry for installs, each with a key it trusts. */
async function sharedRegistry(t: TestContext) {
  const directory = await temporaryDirectory(t);
  const vendorFiles = createRegistryFiles(join(directory, "vendor"));
  const signer = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const release = await writeRelease(vendorFiles, directory, signer.privateKey);
  const local = { host: "127.0.0.1", port: 0 };
  const vendor = await serveRegistry({
    ...local,
    directory: join(directory, "vendor"),
    auth: { kind: "anonymous" },
  });
  const token = generateKeyPairSync("ed25519");
  const content = join(directory, "shared");
  const registry = await serveRegistry({
    ...local,
    directory: content,
    auth: {
      kind: "token",
      realm: "https://none.invalid",
      publicKeys: [token.publicKey],
      ...NAMES,
    },
  });
  t.after(() => Promise.all([vendor.close(), registry.close()]));
  const shared = createRegistryFiles(content);
  const grant: Grant = { registryUrl: vendor.url, token: "unused", expiresAt: Date.now() + 60_000 };
  const spki = spkiOf(signer.publicKey);
  return { release, shared, open };

  async function open(prefix: string, mountFrom: readonly string[] = []) {
    const home = join(directory, prefix);
    await mkdir(join(home, "registry"), { recursive: true });
    const pem = token.privateKey.export({ format: "pem", type: "pkcs8" });
    await writeFile(join(home, "registry", "token.key"), pem);
    const contract = {
      version: 1,
      registry: { url: registry.url, ...NAMES, repository: prefix, mountFrom },
      runtime: { type: "process", directory: join(home, "runtime") },
    };
    await writeFile(join(home, "sandbox.json"), JSON.stringify(contract));
    await seedRunner(prefix);
    return openInstall(home, prefix);
  }

  /** As a setup leaves it. */
  async function seedRunner(prefix: string): Promise<void> {
    const target = { repository: `${prefix}/${release.runner.repository}` };
    await copyArtifact({ from: vendorFiles, to: shared, source: release.runner, target });
  }

  async function openInstall(home: string, name: string) {
    const key = { keyid: "key", spki };
    const keys = { director: key, release: key };
    const options = { kind: "install", home, path: PATH, now: Date.now } as const;
    const { runtime, install } = await openPlace(options, { audience: name, keys });
    const journal = createMemoryJournal({ journalId: name });
    const jobs = createJobs({
      runtime,
      spool: createSpool({ directory: join(home, "spool") }),
      journal,
      place: { own: install, journal, path: PATH, evaluate: evaluateConfig },
      now: Date.now,
      log: silentLog,
    });
    const run = async (operation: "sync" | "apply", step: Partial<ManifestStep>) => {
      const record = recordOf(job(`${operation}${name}`, { operation, step }));
      const launched = await jobs.launch(record, grant);
      const follow = () =>
        jobs.follow(record, {
          signal: AbortSignal.timeout(60_000),
          isCancelled: () => false,
          onSpooled() {},
        });
      t.after(() => runtime.remove(record.name));
      return { launched, follow };
    };
    const { runner, plugin, artifact, materials, index } = release;
    const releases = [index];
    return {
      async sync() {
        const { launched, follow } = await run("sync", { plugin: runner, materials, releases });
        assert.equal(launched.kind, "launched", JSON.stringify(launched));
        return follow();
      },
      async apply() {
        const { launched, follow } = await run("apply", { plugin, artifact, releases });
        assert.equal(launched.kind, "launched", JSON.stringify(launched));
        return follow();
      },
      launchApply: async () => (await run("apply", { plugin, artifact, releases })).launched,
    };
  }
}

const APPLY = `#!/bin/sh
place=$(sed 's/.*"artifact":{"repository":"\\([^"]*\\)".*/\\1/' "$EXCLAVE_JOB_DIR/job.json")
echo '{"type":"output","name":"place","value":"'"$place"'"}'
echo '{"type":"result","ok":true}'
`;

async function writeRelease(store: ContentStore, directory: string, signedBy: KeyObject) {
  const image = async (repository: string, script: string) => {
    const from = join(directory, "program");
    await writeFile(from, script);
    const files = [{ path: "bin/program", from, executable: true }];
    const config = { entrypoint: ["/bin/program"] };
    const { digest } = await packImage({ store, repository, layers: [{ files }], config });
    return { repository, digest };
  };
  const exec = `exec ${JSON.stringify(process.execPath)} ${JSON.stringify(RUNNER)}`;
  const runner = await image("exclave/runner", `#!/bin/sh\n${exec}\n`);
  const plugin = await image("exclave/plugins/command", APPLY);
  const artifact = await image("apps/crm/api", "the api");

  const repository = "releases/crm";
  const manifests = [];
  for (const source of [runner, plugin, artifact]) {
    const { digest } = source;
    await copyArtifact({ from: store, to: store, source, target: { repository } });
    const { bytes, mediaType } = await store.readManifest(repository, digest);
    const annotations = { [REPOSITORY_ANNOTATION]: source.repository };
    manifests.push({ mediaType, digest, size: bytes.length, annotations });
  }
  const { digest } = await packIndex({ store, repository, manifests });
  await signArtifact({ store, repository, digest, signer: createSigner(signedBy) });
  const index = { repository, digest };
  const materials = Object.entries({ runner, plugin, api: artifact, release: index }).map(
    ([name, ref]) => ({ name, ...ref }),
  );
  return { runner, plugin, artifact, index, materials };
}
