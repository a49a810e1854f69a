// The whole plugin with the real tool on real state; resources are commands that leave countable
// traces. What needs a provider is in drift.e2e.ts.

import assert from "node:assert/strict";
import { readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, type TestContext as NodeTest, test } from "node:test";
import { Failure } from "@exclave/plugin-sdk";
import {
  counted,
  type ModuleUnderTest,
  moduleUnderTest,
  NO_TOOL,
} from "./testing/module-under-test.ts";

describe("a terraform component", { skip: NO_TOOL }, () => {
  test("is planned, applied as planned, and reports its outputs", async (t) => {
    const module = await withResource(t, "a");

    const { plan } = await module.run("plan");
    assert.deepEqual(
      { risk: plan?.risk, summary: plan?.summary },
      { risk: "change", summary: "1 to add, 0 to change, 0 to destroy" },
    );
    assert.deepEqual(await module.effects(), [], "a plan changes nothing");

    const { lines, outputs } = await module.run("apply", { parameters: { planFile: plan?.file } });
    assert.deepEqual(await module.effects(), ["make a"]);
    assert.deepEqual(outputs, { name: "a", password: "hunter2" });
    const sensitive = lines.flatMap((line) =>
      line.type === "output" && line.sensitive ? [line.name] : [],
    );
    assert.deepEqual(sensitive, ["password"]);
    assert.deepEqual(
      lines.filter(({ type }) => type === "resource"),
      [{ type: "resource", action: "created", kind: "terraform_data", name: "terraform_data.a" }],
    );
  });

  test("applied twice does nothing the second time", async (t) => {
    const module = await withResource(t, "a");
    await module.deploy();

    const { plan } = await module.run("plan");
    assert.equal(plan?.risk, "none");
    await module.run("apply", { parameters: { planFile: plan?.file } });

    assert.deepEqual(await module.effects(), ["make a"]);
  });

  test("applies without a plan by making one", async (t) => {
    const module = await withResource(t, "a");

    await module.run("apply");

    assert.deepEqual(await module.effects(), ["make a"]);
  });

  test("says when a plan replaces or destroys", async (t) => {
    const module = await withResource(t, "a");
    await module.deploy();

    await module.write({
      "main.tf": counted("a", module.effectsFile, { input: "other", isReplaced: true }),
    });
    assert.equal((await module.run("plan")).plan?.risk, "replace");

    await module.write({ "main.tf": counted("b", module.effectsFile) });
    const { plan } = await module.run("plan");
    assert.equal(plan?.risk, "destroy");
    assert.equal(plan?.summary, "1 to add, 0 to change, 1 to destroy");
  });

  test("refuses a plan that the state has left behind", async (t) => {
    const module = await withResource(t, "a");
    const { plan } = await module.run("plan");
    const stale = join(module.directory, "stale.tfplan");
    await writeFile(stale, await readFile(plan?.file ?? ""));
    await module.deploy();

    await assert.rejects(
      module.run("apply", { parameters: { planFile: stale } }),
      failure("conflict", /the state moved on since the plan; plan again/),
    );
    assert.deepEqual(await module.effects(), ["make a"]);
  });

  test("refuses something that is no plan", async (t) => {
    const module = await withResource(t, "a");
    const file = join(module.directory, "nonsense");
    await writeFile(file, "nonsense");

    await assert.rejects(module.run("apply", { parameters: { planFile: file } }), Failure);
    assert.deepEqual(await module.effects(), []);
  });

  test("gives variables to the module and to nobody else", async (t) => {
    const module = await moduleUnderTest(t);
    await module.write({
      "main.tf": `
        variable "secret" { type = string }
        variable "sizes" { type = map(number) }
        resource "terraform_data" "seen" {
          input = length(var.secret) + var.sizes["b"]
          provisioner "local-exec" {
            command = "cat /proc/$PPID/cmdline >> ${module.effectsFile}"
          }
        }
        output "sum" { value = terraform_data.seen.output }`,
    });
    const config = { variables: { secret: "s3cr3t-${a}", sizes: { a: 1, b: 31 } } };

    const { outputs, logs } = await module.deploy({ config });

    assert.deepEqual(outputs, { sum: 42 });
    assert.doesNotMatch((await module.effects()).join(), /s3cr3t/);
    assert.doesNotMatch(logs.join("\n"), /s3cr3t/);
    const saved = await stat(join(module.stateDirectory, "applied.json"));
    assert.equal(saved.mode & 0o777, 0o600);
  });

  test("keeps its state in the install, whatever backend the module names", async (t) => {
    const module = await moduleUnderTest(t);
    const s3 = 'terraform {\n  backend "s3" {\n    bucket = "elsewhere"\n  }\n}\n';
    await module.write({ "main.tf": s3 + counted("a", module.effectsFile) });

    await module.deploy();

    const state = await readFile(join(module.stateDirectory, "terraform.tfstate"), "utf8");
    assert.match(state, /terraform_data/);
  });

  test("copies the state aside before each apply, and keeps five copies", async (t) => {
    const module = await moduleUnderTest(t);
    for (let round = 0; round < 8; round++) {
      await module.write({ "main.tf": `output "round" { value = ${round} }` });
      await module.run("apply");
    }

    const kept = await readdir(join(module.stateDirectory, "backups"));
    assert.equal(kept.length, 5);
  });

  test("reports a failed apply with the tool's own reason, and what was made stays known", async (t) => {
    const module = await moduleUnderTest(t);
    const bad = counted("bad", module.effectsFile, {
      after: "exit 3",
      body: "depends_on = [terraform_data.good]",
    });
    await module.write({ "main.tf": counted("good", module.effectsFile) + bad });

    await assert.rejects(
      module.deploy(),
      failure("tool", /local-exec provisioner error.*exit status 3/),
    );
    const { status } = await module.run("status");
    assert.deepEqual(status, { health: "degraded", because: "the last apply did not finish" });

    await module.write({ "main.tf": counted("good", module.effectsFile) });
    await module.deploy();
    assert.deepEqual(
      (await module.effects()).filter((line) => line.endsWith("good")),
      ["make good"],
    );
  });

  test("is missing before, healthy after, and missing again once destroyed", async (t) => {
    const module = await withResource(t, "a");
    assert.equal((await module.run("status")).status?.health, "missing");

    await module.deploy();
    assert.deepEqual((await module.run("status")).status, {
      health: "healthy",
      because: "as it was applied",
      drift: { found: false, summary: "none" },
    });

    await module.run("destroy");
    assert.deepEqual(await module.effects(), ["make a", "unmake a"]);
    assert.equal((await module.run("status")).status?.health, "missing");
    assert.deepEqual(await readdir(module.stateDirectory), ["last-run.log"]);
  });

  test("is destroyed with what it was made from, not with what is wanted today", async (t) => {
    const module = await moduleUnderTest(t);
    const required = 'variable "needed" { type = string }\n';
    await module.write({ "main.tf": required + counted("a", module.effectsFile) });
    await module.deploy({ config: { variables: { needed: "x" } } });
    await module.write({ "main.tf": "this is no module" });

    await module.run("destroy");

    assert.deepEqual(await module.effects(), ["make a", "unmake a"]);
  });

  test("is destroyed a second time without complaint", async (t) => {
    const module = await withResource(t, "a");

    const { logs } = await module.run("destroy");

    assert.ok(logs.includes("nothing is there to destroy"));
  });

  test("shows what the last run said", async (t) => {
    const module = await withResource(t, "a");
    await module.deploy();

    const { logs } = await module.run("logs", { parameters: { tailLines: 4 } });

    assert.equal(logs.length, 4);
    assert.match(logs.join("\n"), /Apply complete! Resources: 1 added/);
  });

  test("never takes an empty source for the wish to destroy everything", async (t) => {
    const module = await withResource(t, "a");
    await module.deploy();
    await module.write({ "notes.txt": "nothing here" });

    await assert.rejects(module.run("plan"), failure("invalid", /no \.tf file/));
  });

  test("refuses to go on from a state that was cut off", async (t) => {
    const module = await withResource(t, "a");
    await module.deploy();
    await module.deploy();
    await writeFile(join(module.stateDirectory, "terraform.tfstate"), "");

    await assert.rejects(module.run("plan"), failure("conflict", /cut off.*backups/));
  });
});

async function withResource(t: NodeTest, name: string): Promise<ModuleUnderTest> {
  const module = await moduleUnderTest(t);
  const outputs = `
    output "name" { value = ${JSON.stringify(name)} }
    output "password" {
      value     = "hunter2"
      sensitive = true
    }`;
  await module.write({ "main.tf": counted(name, module.effectsFile) + outputs });
  return module;
}

function failure(code: string, message: RegExp): (reason: unknown) => boolean {
  return (reason) => {
    assert.ok(reason instanceof Failure, String(reason));
    assert.equal(reason.code, code, reason.message);
    assert.match(reason.message, message);
    return true;
  };
}
