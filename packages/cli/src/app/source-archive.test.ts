import assert from "node:assert/strict";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { type TestContext, test } from "node:test";
import { readTar } from "@exclave/core";
import { packSource } from "./source-archive.ts";

test("what Terraform left of the developer's own runs stays at home, the lock file comes along", async (t) => {
  const paths = await packed(t, [
    "main.tf",
    ".terraform.lock.hcl",
    ".terraform/providers/big",
    ".terraform.tfstate.lock.info",
    "terraform.tfstate",
    "terraform.tfstate.backup",
    "terraform.tfstate.1700000000.backup",
    "terraform.tfstate.d/test/terraform.tfstate",
    "modules/network/main.tf",
    "modules/network/.terraform/environment",
    "modules/network/other.tfstate",
    "modules/network/other.tfstate.backup",
    "modules/network/.other.tfstate.lock.info",
  ]);

  assert.deepEqual(paths, [
    ".terraform.lock.hcl",
    "main.tf",
    "modules",
    "modules/network",
    "modules/network/main.tf",
  ]);
});

test("a name that only begins like one of these is a source as any other", async (t) => {
  const names = [".terraformrc", "my.terraform", "state.tfstate.tf", "tfstate"];

  assert.deepEqual(await packed(t, names), names);
});

/** What is packed of a directory with these files. */
async function packed(t: TestContext, files: readonly string[]): Promise<string[]> {
  const directory = await mkdtemp(join(tmpdir(), "exclave-source-"));
  t.after(() => rm(directory, { recursive: true, force: true }));
  for (const file of files) {
    await mkdir(dirname(join(directory, file)), { recursive: true });
    await writeFile(join(directory, file), file);
  }
  const { bytes } = await packSource(directory);
  return readTar(bytes).map(({ path }) => path);
}
