// Drift, with a provider that makes real files: what was changed outside is found, named, and put
// right by the next deploy. Needs Go once, to build the provider; run by `npm run test:e2e`.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { cp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, type TestContext as NodeTest, test } from "node:test";
import { promisify } from "node:util";
import { z } from "@exclave/plugin-sdk";
import { type ModuleUnderTest, moduleUnderTest, NO_TOOL } from "./testing/module-under-test.ts";
import { layOut } from "./testing/sample-provider.ts";

const Provider = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("ready"), mirror: z.string() }),
  z.object({ kind: z.literal("unavailable"), because: z.string() }),
]);
const tool = join(import.meta.dirname, "../../../tools/test-tools/terraform-provider-local.ts");
const { stdout } = await promisify(execFile)(process.execPath, [tool]);
const provider = Provider.parse(JSON.parse(stdout));
const cannot = NO_TOOL || (provider.kind === "unavailable" && provider.because);

describe("a terraform component with a provider of its own", { skip: cannot }, () => {
  test("is built, planned, applied, changed, found drifted, put right and destroyed", async (t) => {
    const module = await moduleUnderTest(t);
    const made = join(module.directory, "made.txt");
    const artifact = await built(t, module, made);
    const at = (text: string) => ({ files: artifact, config: { variables: { text } } });

    const { plan } = await module.run("plan", at("one"));
    assert.equal(plan?.summary, "1 to add, 0 to change, 0 to destroy");
    await module.run("apply", { ...at("one"), parameters: { planFile: plan?.file } });
    assert.equal(await readFile(made, "utf8"), "one");
    assert.equal((await module.run("status", at("one"))).status?.health, "healthy");

    await module.deploy(at("two"));
    assert.equal(await readFile(made, "utf8"), "two");

    await writeFile(made, "somebody else's");
    const { status } = await module.run("status", at("two"));
    assert.equal(status?.health, "degraded");
    assert.equal(status?.drift?.found, true);
    assert.match(status?.drift?.summary ?? "", /local_file\.made/);

    await module.deploy(at("two"));
    assert.equal(await readFile(made, "utf8"), "two");
    assert.equal((await module.run("status", at("two"))).status?.health, "healthy");

    await module.run("destroy", at("two"));
    await assert.rejects(stat(made), { code: "ENOENT" });
  });

  test("is checked and destroyed with the provider that was kept, without its artifact", async (t) => {
    const module = await moduleUnderTest(t);
    const made = join(module.directory, "made.txt");
    const artifact = await built(t, module, made);
    await module.deploy({ files: artifact, config: { variables: { text: "one" } } });
    await rm(artifact, { recursive: true });
    await module.write({ "README.md": "nothing" });

    await rm(made);
    assert.match((await module.run("status")).status?.because ?? "", /local_file\.made is gone/);

    await module.run("destroy");
    assert.equal((await module.run("status")).status?.health, "missing");
  });
});

/** Builds the component and keeps what was built, as its artifact would be. */
async function built(t: NodeTest, module: ModuleUnderTest, made: string): Promise<string> {
  await module.write({
    "main.tf": `
      variable "text" { type = string }
      resource "local_file" "made" {
        filename = ${JSON.stringify(made)}
        content  = var.text
      }`,
  });
  assert.equal(provider.kind, "ready");
  const mirror = join(module.directory, "files", ".exclave", "providers");
  await cp(provider.kind === "ready" ? provider.mirror : "", mirror, { recursive: true });
  const { build } = await module.run("build");
  const artifact = join(module.directory, "artifact");
  assert.ok(build?.kind === "module");
  await layOut(build, artifact);
  t.after(() => rm(artifact, { recursive: true, force: true }));
  return artifact;
}
