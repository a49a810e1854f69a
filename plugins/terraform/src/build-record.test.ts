// An install goes on with the tool that built the artifact. Machines that have one tool, the other or
// both are directories of stand-ins that say which of them was asked to work.

import assert from "node:assert/strict";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, type TestContext as NodeTest, test } from "node:test";
import { Failure } from "@exclave/plugin-sdk";
import { writeBuildRecord } from "./build-record.ts";
import { type ModuleUnderTest, moduleUnderTest, TOOLS } from "./testing/module-under-test.ts";
import { layOut, readText } from "./testing/sample-provider.ts";
import { ToolName } from "./tool.ts";

const MAIN = { "main.tf": 'output "o" { value = 1 }\n' };

describe("an artifact in an install", () => {
  test("is for the tool that built it, and not for the one that is looked for first", async (t) => {
    const module = await builtWith(t, "tofu");
    await useMachine(t, module, ["terraform", "tofu"]);

    await assert.rejects(module.run("plan"), failure("invalid", /tofu was asked to init/));
  });

  test("is not handed to the other tool where its own is missing", async (t) => {
    const module = await builtWith(t, "terraform");
    await useMachine(t, module, ["tofu"]);

    await assert.rejects(
      module.run("plan"),
      failure("unavailable", /built with terraform, which is not on the PATH .* say tool: tofu/),
    );
  });

  test("from before builds wrote down their tool is for whichever the machine has", async (t) => {
    const module = await moduleUnderTest(t);
    await module.write(MAIN);
    await useMachine(t, module, ["tofu"]);

    await assert.rejects(module.run("plan"), failure("invalid", /tofu was asked to init/));
  });
});

for (const tool of TOOLS) {
  test(`what ${tool} built is applied by ${tool}, though nobody says so`, async (t) => {
    const module = await moduleUnderTest(t);
    await module.write({ ...MAIN, ".exclave/built.json": "from an earlier life" });

    const { build } = await module.run("build", { config: { tool } });
    assert.ok(build?.kind === "module");
    const artifact = await layOut(build, join(module.directory, "artifact"));
    await module.deploy({ files: artifact });

    assert.equal(await readText(artifact, ".exclave/built.json"), `{"tool":"${tool}"}\n`);
    const applied = await readFile(join(module.stateDirectory, "applied.json"), "utf8");
    assert.equal(JSON.parse(applied).tool, tool);
  });
}

const tooFew = TOOLS.length < ToolName.options.length && "one of terraform and tofu is not here";
test("what one tool applied is destroyed by it, whatever the other has built since", {
  skip: tooFew,
}, async (t) => {
  const module = await moduleUnderTest(t);
  await module.write({ "main.tf": 'resource "terraform_data" "a" {}\n' });
  await module.deploy({ config: { tool: "tofu" } });
  const files = join(module.directory, "files");
  await writeBuildRecord(files, { tool: "terraform" });

  await assert.rejects(module.run("plan"), failure("conflict", /say tool: tofu and build again/));
  assert.equal((await module.run("status")).status?.health, "healthy");
  await module.run("destroy");
  assert.equal((await module.run("status")).status?.health, "missing");
});

async function builtWith(t: NodeTest, tool: ToolName): Promise<ModuleUnderTest> {
  const module = await moduleUnderTest(t);
  await module.write(MAIN);
  await writeBuildRecord(join(module.directory, "files"), { tool });
  return module;
}

/** Until the test ends, the PATH leads to stand-ins for these tools and to no other program. */
async function useMachine(
  t: NodeTest,
  { directory }: ModuleUnderTest,
  tools: readonly ToolName[],
): Promise<void> {
  const bin = join(directory, "bin");
  await mkdir(bin);
  for (const tool of tools) {
    const version = `[ "$1" = version ] && echo '{"terraform_version":"1.2.3"}' && exit`;
    const script = `#!/bin/sh\n${version}\necho "${tool} was asked to $1" >&2\nexit 1\n`;
    await writeFile(join(bin, tool), script, { mode: 0o755 });
  }
  const before = process.env.PATH;
  process.env.PATH = bin;
  t.after(() => {
    process.env.PATH = before;
  });
}

function failure(code: string, message: RegExp): (reason: unknown) => boolean {
  return (reason) => {
    assert.ok(reason instanceof Failure, String(reason));
    assert.equal(reason.code, code, reason.message);
    assert.match(reason.message, message);
    return true;
  };
}
