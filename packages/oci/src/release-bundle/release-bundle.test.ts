// A release crosses an air gap: written as one file from one registry, taken into another, each time
// by the real program.

import assert from "node:assert/strict";
import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import type { ContentStore } from "../content/content-store.ts";
import { blobsOf, childrenOf, parseManifest } from "../content/descriptor.ts";
import { temporaryDirectory } from "../testing/temporary-directory.ts";
import {
  airGap,
  attachBill,
  contentOf,
  materials,
  repository,
  run,
  sign,
  stranger,
  workLeft,
} from "./testing/air-gap.ts";

test("a release written to a file is whole in the install, each part where it belongs", async (t) => {
  const { release, install, bundle } = await airGap(t);

  const { lines, code } = await run("load", "--file", bundle, "--directory", install.directory);

  assert.equal(code, 0, JSON.stringify(lines.at(-1)));
  assert.equal(lines.at(-1)?.install, "acme");
  for (const [index, material] of materials.entries()) {
    const digest = release.entries[index]?.digest ?? "";
    await assertWhole(install.store, material.repository, digest);
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

test("only the vendor's signature comes along, of all that is attached to a release", async (t) => {
  const { release, store, write, install } = await airGap(t);
  await sign(store, release, stranger.privateKey);
  await attachBill(store, release.digest);
  for (const { digest } of release.entries) await attachBill(store, digest);
  const bundle = await write();

  const { lines, code } = await run("load", "--file", bundle, "--directory", install.directory);

  assert.equal(code, 0, JSON.stringify(lines.at(-1)));
  const attached = await install.store.referrers(repository, release.digest);
  assert.deepEqual(
    attached.map(({ digest }) => digest),
    [lines.at(-1)?.signature],
  );
  for (const [index, { digest }] of release.entries.entries()) {
    const home = materials[index]?.repository ?? "";
    assert.deepEqual(await install.store.referrers(home, digest), []);
  }
});

test("a key that is named counts instead of the one the agent pinned", async (t) => {
  const { install, bundle } = await airGap(t, stranger.privateKey);
  const key = join(install.directory, "key.pem");
  await writeFile(key, stranger.publicKey.export({ type: "spki", format: "pem" }));

  const named = await run("load", "--file", bundle, "--directory", install.directory, "--key", key);

  assert.equal(named.lines.at(-1)?.type, "result");
});

test("before the agent has joined nobody knows whose signature counts", async (t) => {
  const { install, bundle } = await airGap(t);
  await rm(join(install.directory, "agent", "trust.json"));

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

async function assertWhole(store: ContentStore, home: string, digest: string): Promise<void> {
  const { bytes, mediaType } = await store.readManifest(home, digest);
  const parsed = parseManifest(bytes, mediaType);
  for (const blob of blobsOf(parsed)) {
    assert.equal(await store.headBlob(home, blob.digest), blob.size);
  }
  for (const child of childrenOf(parsed)) await assertWhole(store, home, child.digest);
}
