// Installs that share one registry, each under a prefix of its own. The registry, the runner and the
// processes are real; the server is not needed for any of it.

import assert from "node:assert/strict";
import { generateKeyPairSync, type KeyObject } from "node:crypto";
import { mkdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { createSystemTimers, type Grant } from "@exclave/api";
import {
  type Digest,
  evaluateConfig,
  type ManifestStep,
  REPOSITORY_ANNOTATION,
} from "@exclave/core";
import {
  blobsOf,
  type ContentStore,
  copyArtifact,
  createRegistryFiles,
  createSigner,
  packImage,
  packIndex,
  parseManifest,
  serveRegistry,
  signStatement,
  writeStatement,
} from "@exclave/oci";
import { createJobs } from "../job/jobs.ts";
import { createSpool } from "../job/spool.ts";
import { createMemoryJournal } from "../journal/memory-journal.ts";
import { openPlace } from "../place.ts";
import { ACME, job, recordOf, silentLog, spkiOf, trustIn } from "../testing/builders.ts";
import { APP, stated } from "../testing/stated-release.ts";
import { temporaryDirectory } from "../testing/temporary-directory.ts";

const RUNNER = fileURLToPath(new URL("../../../runner/src/main.ts", import.meta.url));
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
    // The statement lies beside the release it is about.
    [...release.materials, release.index].map(({ repository }) => [`globex/${repository}`, 0]),
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
  const { open } = await sharedRegistry(t);
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
    ["plugin", "api", "statement"],
  );
});

test("a registry that lost everything is filled again: the runner from its copy, the rest by a sync", async (t) => {
  const { open, content } = await sharedRegistry(t);
  const acme = await open("acme");
  await acme.sync();
  await acme.pinned();
  await rm(join(content, "blobs"), { recursive: true });
  await rm(join(content, "repositories"), { recursive: true });

  const early = await acme.launchApply();
  const synced = await acme.sync();
  const applied = await acme.apply();

  assert.equal(early.kind === "not_launched" && early.why.code, "not_synced");
  assert.deepEqual(synced.outcome, { kind: "succeeded" });
  assert.deepEqual(applied.outcome, { kind: "succeeded" });
});

for (const what of ["a flipped byte", "a missing file"] as const) {
  test(`${what} in the registry is noticed, and the next sync brings that content again`, async (t) => {
    const { release, open, content } = await sharedRegistry(t);
    const acme = await open("acme");
    await acme.sync();
    const files = createRegistryFiles(content);
    const manifest = await files.readManifest(
      `acme/${release.plugin.repository}`,
      release.plugin.digest,
    );
    const [, layer] = blobsOf(parseManifest(manifest.bytes, manifest.mediaType));
    const path = files.blobs.path(layer?.digest as Digest);
    await spoil(path, what);

    const early = await acme.launchApply();
    const synced = await acme.sync();
    const applied = await acme.apply();

    assert.equal(early.kind === "not_launched" && early.why.code, "not_synced");
    assert.deepEqual(synced.outcome, { kind: "succeeded" });
    assert.equal(bytesCopied(synced), layer?.size, "only what was lost is moved");
    assert.deepEqual(applied.outcome, { kind: "succeeded" });
  });
}

test("a runner that is damaged in the registry is put back from its copy", async (t) => {
  const { release, open, content } = await sharedRegistry(t);
  const acme = await open("acme");
  await acme.sync();
  await acme.pinned();
  await acme.dropImages();
  const files = createRegistryFiles(content);
  const { repository, digest } = release.runner;
  const manifest = await files.readManifest(`acme/${repository}`, digest);
  const [, layer] = blobsOf(parseManifest(manifest.bytes, manifest.mediaType));
  await spoil(files.blobs.path(layer?.digest as Digest), "a flipped byte");

  const synced = await acme.sync();

  assert.deepEqual(synced.outcome, { kind: "succeeded" });
});

test("a missing key of the registry is a sentence, and a new key is enough", async (t) => {
  const { open } = await sharedRegistry(t);
  const acme = await open("acme");
  const pem = await readFile(acme.tokenKey);
  await rm(acme.tokenKey);

  const without = await acme.launchApply();
  await writeFile(acme.tokenKey, pem);
  const withKey = await acme.sync();

  const why = without.kind === "not_launched" ? without.why : undefined;
  assert.equal(why?.code, "unavailable", "it is retried until there is one");
  assert.match(why?.message ?? "", /token\.key, is missing; whoever keeps the registry of/);
  assert.deepEqual(withKey.outcome, { kind: "succeeded" });
});

async function spoil(path: string, how: "a flipped byte" | "a missing file"): Promise<void> {
  const bytes = await readFile(path);
  const at = Math.floor(bytes.length / 2);
  bytes[at] = (bytes[at] ?? 0) ^ 1;
  await rm(path);
  if (how === "a flipped byte") await writeFile(path, bytes);
}

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
  return { release, shared, content, open };

  async function open(prefix: string, mountFrom: readonly string[] = []) {
    const home = join(directory, prefix);
    await mkdir(join(home, "registry"), { recursive: true });
    const pem = token.privateKey.export({ format: "pem", type: "pkcs8" });
    await writeFile(join(home, "registry", "token.key"), pem);
    const contract = {
      version: 1,
      kind: "shared",
      install: { id: ACME, name: prefix },
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
    const role = { keys: [{ keyid: "key", spki, scheme: "ecdsa-p256" as const }], threshold: 1 };
    const options = { kind: "install", home, path: PATH, now: Date.now } as const;
    const journal = createMemoryJournal({ journalId: name });
    const trust = { role: () => role, current: () => trustIn({ keyid: "key", spki }) };
    const identity = { audience: ACME, app: APP };
    const { runtime, install, gate } = await openPlace(options, identity, { journal, trust });
    const jobs = createJobs({
      runtime,
      spool: createSpool({ directory: join(home, "spool") }),
      journal,
      place: { own: install, gate, journal, evaluate: evaluateConfig, origins: () => [] },
      now: Date.now,
      timers: createSystemTimers(),
      log: silentLog,
    });
    let runs = 0;
    const run = async (operation: "sync" | "apply", step: Partial<ManifestStep>) => {
      const given = { operation, app: APP, release: "r1", step, attempt: ++runs };
      const record = recordOf(job(`${operation}${name}`, given));
      const launched = await jobs.launch(record, { grant });
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
      tokenKey: join(home, "registry", "token.key"),
      /** Waits until the runner has a copy outside the registry. */
      async pinned() {
        const path = join(home, "runner", runner.digest.replace(":", "-"));
        while (!(await stat(path).catch(() => undefined))) await sleep(20);
      },
      /** What is unpacked, base layers included: the next start reads the registry. */
      async dropImages() {
        for (const name of ["images", "base-layers"]) {
          await rm(join(home, "runtime", name), { recursive: true });
        }
      },
      async sync() {
        const about = { component: undefined, type: undefined, effect: "idempotent" as const };
        const step = { plugin: runner, materials, releases, ...about } as Partial<ManifestStep>;
        const { launched, follow } = await run("sync", step);
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
  const { size: sizeBytes = 0 } = (await store.headManifest(repository, digest)) ?? {};
  const index = { repository, digest };
  const components = stated().components.map((component) => ({ ...component, plugin, artifact }));
  const statement = { ...stated(), index: { ...index, sizeBytes }, components, runner };
  const signed = await signStatement(statement, [createSigner(signedBy)]);
  await writeStatement(store, repository, signed);
  const materials = Object.entries({ runner, plugin, api: artifact, release: index }).map(
    ([name, ref]) => ({ name, ...ref }),
  );
  return { runner, plugin, artifact, index, materials };
}
