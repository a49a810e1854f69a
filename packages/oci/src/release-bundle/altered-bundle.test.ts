// What was done to a bundle on its way: whatever it is, the bundle is refused and nothing is written.

import assert from "node:assert/strict";
import { mkdir, open, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import type { Digest } from "@exclave/core";
import { writeBlobBytes } from "../content/content-store.ts";
import { ImageManifest, MEDIA_TYPES } from "../content/descriptor.ts";
import { readLayoutArchive, writeLayoutArchive } from "../content/layout-archive.ts";
import { createLayoutStore } from "../content/layout-store.ts";
import { SIGNATURE_TYPE } from "../formats/media-types.ts";
import { temporaryDirectory } from "../testing/temporary-directory.ts";
import {
  airGap,
  attach,
  attachBill,
  contentOf,
  repository,
  run,
  stranger,
  workLeft,
} from "./testing/air-gap.ts";

interface Spoilt {
  readonly directory: string;
  readonly release: Digest;
  readonly component: Digest;
}

const SPOILS: Record<string, (bundle: Spoilt) => Promise<unknown>> = {
  "a blob with one byte changed": async ({ directory }) => {
    const file = await open(await someBlob(directory), "r+");
    await file.write(Buffer.from("X"), 0, 1, 40);
    await file.close();
  },
  "a file that is no blob": ({ directory }) => writeFile(join(directory, "blobs/extra"), "x"),
  "a blob that nothing leads to": ({ directory }) => stow(directory),
  "no index": ({ directory }) => writeFile(join(directory, "index.json"), "{}"),
  "something unsigned attached to a component": ({ directory, component }) =>
    attachBill(createLayoutStore({ directory }), component),
  "something unsigned attached to the release": ({ directory, release }) =>
    attachBill(createLayoutStore({ directory }), release),
  "a signature that carries something else": async ({ directory, release }) => {
    const store = createLayoutStore({ directory });
    const [signature] = await store.referrers(repository, release);
    const { bytes } = await store.readManifest(repository, signature?.digest ?? "");
    const { layers } = ImageManifest.parse(JSON.parse(Buffer.from(bytes).toString("utf8")));
    const more = await stow(directory);
    await attach(store, release, { artifactType: SIGNATURE_TYPE, layers: [...layers, more] });
  },
  "another repository for the release": ({ directory }) =>
    editIndex(directory, /releases\/pshopaaaaaaaaaaaa/g, "attacker/chose"),
  "another name for the release": ({ directory }) => editIndex(directory, /:r-1"/, ':r-2"'),
  "another type for the release": ({ directory }) =>
    editIndex(directory, /"[^"]+index.v1\+json"(?=,\s+"digest")/, `"${MEDIA_TYPES.dockerIndex}"`),
};

for (const [what, spoil] of Object.entries(SPOILS)) {
  test(`a bundle with ${what} is refused and nothing is written`, async (t) => {
    const { release, install, bundle } = await airGap(t);
    const component = release.entries[2]?.digest ?? assert.fail();
    await repack(t, bundle, (directory) =>
      spoil({ directory, release: release.digest, component }),
    );

    const { lines, code } = await run("load", "--file", bundle, "--directory", install.directory);

    assert.equal(code, 1);
    assert.equal(lines.at(-1)?.code, "invalid");
    assert.deepEqual(await contentOf(install.directory), []);
    assert.deepEqual(await workLeft(install.directory), []);
  });
}

test("a bundle that was unpacked and packed again as it was is still the same", async (t) => {
  const { install, bundle } = await airGap(t);
  await repack(t, bundle, async () => undefined);

  const { lines } = await run("load", "--file", bundle, "--directory", install.directory);

  assert.equal(lines.at(-1)?.type, "result");
});

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

async function repack(
  t: TestContext,
  bundle: string,
  change: (directory: string) => Promise<unknown>,
): Promise<void> {
  const layout = join(await temporaryDirectory(t), "layout");
  await mkdir(layout);
  await readLayoutArchive(bundle, layout);
  await change(layout);
  await writeLayoutArchive(layout, bundle);
}

function stow(directory: string) {
  const store = createLayoutStore({ directory });
  return writeBlobBytes(store, repository, "text/plain", Buffer.from("stowaway"));
}

async function editIndex(directory: string, from: RegExp, to: string): Promise<void> {
  const file = join(directory, "index.json");
  const before = await readFile(file, "utf8");
  const after = before.replace(from, to);
  assert.notEqual(after, before);
  await writeFile(file, after);
}

async function someBlob(directory: string): Promise<string> {
  const blobs = join(directory, "blobs/sha256");
  const [name = ""] = await readdir(blobs);
  return join(blobs, name);
}

for (const [what, code, stated] of [
  ["a release of another app", "wrong_install", { app: "pcrmaaaaaaaaaaaaa" }],
  ["a release with something that its statement does not list", "unreleased", { unlisted: "web" }],
] as const) {
  test(`${what} is refused, signed by the vendor or not, and nothing is written`, async (t) => {
    const { install, bundle } = await airGap(t, undefined, stated);

    const { code: exit, lines } = await run(
      "load",
      "--file",
      bundle,
      "--directory",
      install.directory,
    );

    assert.notEqual(exit, 0);
    assert.equal(lines.at(-1)?.code, code, JSON.stringify(lines.at(-1)));
    assert.deepEqual(await contentOf(install.directory), []);
  });
}
