// Jobs die: killed with everything they started, or asked to stop in the middle. Each runs as its
// own process here. What a job finished is never done again, and no lock is left for the next.

import assert from "node:assert/strict";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, type TestContext as NodeTest, test } from "node:test";
import { Failure } from "@exclave/plugin-sdk";
import {
  counted,
  type ModuleUnderTest,
  moduleUnderTest,
  NO_TOOL,
  TOOLS,
} from "./testing/module-under-test.ts";
import type { ToolName } from "./tool.ts";

test("needs terraform or tofu", { skip: NO_TOOL }, () => assert.ok(TOOLS.length > 0));

for (const tool of TOOLS) {
  describe(`with ${tool}, an apply that is killed`, () => {
    test("leaves what it made on record, and the next one makes the rest and nothing twice", async (t) => {
      const module = await twoSteps(t, tool, { second: "sleep 60" });
      const job = module.launch("apply", { job: "jkilledkilledkill" });
      await job.said("terraform_data.second: Provisioning with");
      await job.killAll();
      assert.ok(
        (await leftInState(module)).includes(".terraform.tfstate.lock.info"),
        "a lock is left",
      );
      assert.equal((await module.run("status")).status?.because, "the last apply did not finish");

      await writeSteps(module, { second: "true" });
      await module.deploy();

      assert.ok(!(await leftInState(module)).includes(".terraform.tfstate.lock.info"));
      assert.equal((await made(module, "first")).length, 1);
      assert.equal((await module.run("status")).status?.health, "healthy");
    });

    test("has its lock broken by the next job, which says whose it was", async (t) => {
      const module = await twoSteps(t, tool, { second: "sleep 60" });
      const job = module.launch("apply", { job: "jkilledkilledkill", attempt: 2 });
      await job.said("terraform_data.second: Provisioning with");
      await job.killAll();

      const { logs } = await module.run("plan");

      assert.ok(
        logs.includes(
          "removing the state lock: job jkilledkilledkill, attempt 2, held it and its processes are gone",
        ),
        logs.join("\n"),
      );
    });

    test("leaves its plan behind: the same plan is refused afterwards", async (t) => {
      const module = await twoSteps(t, tool, { second: "sleep 60" });
      const { plan } = await module.run("plan");
      const file = join(module.directory, "kept.tfplan");
      await writeFile(file, await readFile(plan?.file ?? ""));
      const job = module.launch("apply", { parameters: { planFile: file } });
      await job.said("terraform_data.second: Provisioning with");
      await job.killAll();

      await assert.rejects(
        module.run("apply", { parameters: { planFile: file } }),
        isConflict(/plan again/),
      );
      assert.equal((await made(module, "first")).length, 1);
    });

    test("can be destroyed instead of finished", async (t) => {
      const module = await twoSteps(t, tool, { second: "sleep 60" });
      const job = module.launch("apply");
      await job.said("terraform_data.second: Provisioning with");
      await job.killAll();

      await module.run("destroy");

      assert.ok((await module.effects()).includes("unmake first"));
      assert.deepEqual(await leftInState(module), ["last-run.log"]);
    });
  });

  describe(`with ${tool}, an apply that is asked to stop`, () => {
    test("interrupts the tool once, which writes its state and leaves no lock", async (t) => {
      const module = await twoSteps(t, tool, { second: "sleep 60" });
      const job = module.launch("apply");
      await job.said("terraform_data.second: Provisioning with");

      job.signal("SIGTERM");
      await job.said("Stopping operation");
      const { code, stderr } = await job.ended;

      assert.equal(code, 1);
      assert.match(stderr, /^cancelled/);
      const left = await leftInState(module);
      assert.ok(!left.some((name) => name.includes("lock")), left.join());
      await writeSteps(module, {});
      await module.deploy();
      assert.equal((await made(module, "first")).length, 1);
    });
  });

  describe(`with ${tool}, a state that somebody is at work on`, () => {
    test("is left alone, and the other job is named", async (t) => {
      const module = await twoSteps(t, tool, { second: "sleep 60" });
      const job = module.launch("apply", { job: "jotherotherothero" });
      await job.said("terraform_data.second: Provisioning with");

      await assert.rejects(module.run("plan"), isConflict(/jotherotherothero.*still at work/));

      await job.killAll();
    });
  });
}

interface Steps {
  /** What else each resource does while it is made. */
  readonly first?: string;
  readonly second?: string;
}

async function twoSteps(t: NodeTest, tool: ToolName, steps: Steps): Promise<ModuleUnderTest> {
  const module = await moduleUnderTest(t, tool);
  await writeSteps(module, steps);
  return module;
}

async function writeSteps(module: ModuleUnderTest, { first = "", second = "" }: Steps) {
  const body = "depends_on = [terraform_data.first]";
  await module.write({
    "main.tf":
      counted("first", module.effectsFile, { after: first }) +
      counted("second", module.effectsFile, { after: second, body }),
  });
}

async function made(module: ModuleUnderTest, name: string): Promise<string[]> {
  return (await module.effects()).filter((line) => line === `make ${name}`);
}

async function leftInState(module: ModuleUnderTest): Promise<string[]> {
  return (await readdir(module.stateDirectory)).toSorted();
}

function isConflict(message: RegExp): (reason: unknown) => boolean {
  return (reason) => {
    assert.ok(reason instanceof Failure, String(reason));
    assert.equal(reason.code, "conflict", reason.message);
    assert.match(reason.message, message);
    return true;
  };
}
