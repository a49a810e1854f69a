import assert from "node:assert/strict";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import type { ImageConfig, UnpackedImage } from "./image-cache.ts";
import { imageCommand, imageEnvironment } from "./image-command.ts";

test("maps what lies in the image into it, and leaves the rest as written", async (t) => {
  const image = await unpacked(t, {
    entrypoint: ["/exclave/bin/node", "/exclave/runner.mjs"],
    cmd: ["/not/there", "--flag", "exclave/runner.mjs"],
  });

  assert.deepEqual(imageCommand(image), [
    join(image.root, "exclave/bin/node"),
    join(image.root, "exclave/runner.mjs"),
    "/not/there",
    "--flag",
    "exclave/runner.mjs",
  ]);
});

for (const [title, entrypoint] of [
  ["is on the machine only", ["/bin/sh"]],
  ["is found by search", ["sh"]],
  ["climbs out of the image", ["/../../../../../../../../../bin/sh"]],
  ["is a link that leads out of the image", ["/exclave/bin/out"]],
  ["is missing", []],
] as const) {
  test(`refuses an image whose program ${title}`, async (t) => {
    const image = await unpacked(t, { entrypoint: [...entrypoint] });

    assert.throws(() => imageCommand(image), { code: "invalid" });
  });
}

test("the search path leads into the image first", async (t) => {
  const image = await unpacked(t, { env: ["PATH=/exclave/bin:/nowhere", "EMPTY", "A=b=c"] });

  assert.deepEqual(imageEnvironment(image, "/usr/bin"), {
    PATH: `${join(image.root, "exclave/bin")}:/usr/bin`,
    EMPTY: "",
    A: "b=c",
  });
});

async function unpacked(t: TestContext, config: Partial<ImageConfig>): Promise<UnpackedImage> {
  const root = await mkdtemp(join(tmpdir(), "exclave-image-"));
  t.after(() => rm(root, { recursive: true, force: true }));
  await mkdir(join(root, "exclave/bin"), { recursive: true });
  await writeFile(join(root, "exclave/bin/node"), "");
  await writeFile(join(root, "exclave/runner.mjs"), "");
  await symlink("/bin/sh", join(root, "exclave/bin/out"));
  return { root, config: { entrypoint: [], cmd: [], env: [], ...config } };
}
