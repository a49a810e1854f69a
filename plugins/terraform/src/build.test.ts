import assert from "node:assert/strict";
import { readdir } from "node:fs/promises";
import { describe, test } from "node:test";
import { Failure } from "@exclave/plugin-sdk";
import { moduleUnderTest, NO_TOOL } from "./testing/module-under-test.ts";

const GOOD = 'resource "terraform_data" "a" { input = "x" }\n';

describe("building a terraform component", { skip: NO_TOOL }, () => {
  test("makes an artifact of the module, without what belongs to a working directory", async (t) => {
    const module = await moduleUnderTest(t);
    await module.write({
      "main.tf": `${GOOD}module "m" { source = "./m" }\n`,
      "m/main.tf": GOOD,
      "terraform.tfstate": "{}",
      ".terraform/left": "over",
      ".exclave/providers/README": "none yet",
    });

    const { build } = await module.run("build");

    assert.equal(build?.kind, "module");
    const files = await readdir(build?.directory ?? "", { recursive: true });
    assert.deepEqual(
      files.toSorted().filter((name) => !name.startsWith(".exclave")),
      ["m", "m/main.tf", "main.tf"],
    );
    assert.deepEqual(build?.kind === "module" && build.providers, []);
  });

  test("needs no value for a variable", async (t) => {
    const module = await moduleUnderTest(t);
    await module.write({ "main.tf": `variable "size" { type = number }\n${GOOD}` });

    assert.equal((await module.run("build")).build?.kind, "module");
  });

  const bad: Record<string, { files: Record<string, string>; message: RegExp }> = {
    "a reference to nothing": {
      files: { "main.tf": 'output "o" { value = terraform_data.nothing.id }\n' },
      message: /not valid: Reference to undeclared resource \(main\.tf:1\)/,
    },
    "a file that does not parse": {
      files: { "main.tf": "resource {\n" },
      message: /main\.tf/,
    },
    "a provider that does not come with it": {
      files: { "main.tf": 'resource "null_resource" "a" {}\n' },
      message: /provider registry\.[a-z]+\.(io|org)\/hashicorp\/null does not come with the module/,
    },
    "no module at all": { files: { "README.md": "hello" }, message: /no \.tf file/ },
  };
  for (const [what, { files, message }] of Object.entries(bad)) {
    test(`refuses ${what}, and says so`, async (t) => {
      const module = await moduleUnderTest(t);
      await module.write(files);

      await assert.rejects(module.run("build"), (reason) => {
        assert.ok(reason instanceof Failure, String(reason));
        assert.equal(reason.code, "invalid");
        assert.match(reason.message, message);
        return true;
      });
    });
  }
});
