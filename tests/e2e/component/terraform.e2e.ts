// The line again with a real tofu or terraform: plan, apply of exactly that plan, change, kill -9 in
// the middle of an apply, destroy. Resources are counted by the lines they leave on disk.

import assert from "node:assert/strict";
import { cpSync, existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { terraformProviderLocal } from "../../../tools/test-tools/terraform-provider-local.ts";
import { createWorld, has, lines, until, untilHealthy, type World } from "../testing/harness.ts";

const tool = ["terraform", "tofu"].find(has);
const skip =
  tool === undefined
    ? "neither tofu nor terraform is on PATH: the Terraform line was not tried"
    : false;

test("a Terraform component is planned, applied exactly so, changed, survives kill -9 and is destroyed", {
  skip,
}, async (t) => {
  const world = await createWorld(t);
  await world.up();
  writeStack(world, { colour: "blue", seconds: 0 });
  await world.exclave("release", "stack", "--channel", "stable", "--wait");
  await world.exclave("install", "create", "acme", "--app", "stack", "--wait");

  await t.test("a plan is made first and the apply names it", async () => {
    const install = await untilHealthy(world, "acme");
    assert.deepEqual(install.components.map(({ name }) => name).sort(), ["consumer", "network"]);
    const jobs = (await world.jobs("--install", "acme", "--component", "network")).toReversed();
    const operations = jobs
      .map(({ operation }) => operation)
      .filter((one) => one === "plan" || one === "apply");
    assert.deepEqual(operations, ["plan", "apply"]);
    const plan = jobs.find(({ operation }) => operation === "plan");
    assert.match(plan?.plan?.summary ?? "", /2 to add/);
    assert.equal(plan?.plan?.risk, "change");
    assert.deepEqual(made(world, "create", "blue"), ["create one blue", "create two blue"]);
    assert.equal(world.read("consumer.txt").trim(), "blue-network");
  });

  await t.test("state stays in the install and the server never sees it", async () => {
    const files = readdirSync(join(world.home, "server"), { recursive: true, encoding: "utf8" });
    assert.deepEqual(
      files.filter((file) => file.includes("tfstate")),
      [],
    );
    const inInstall = readdirSync(join(world.home, "installs/acme"), {
      recursive: true,
      encoding: "utf8",
    });
    assert.ok(inInstall.some((file) => file.endsWith(".tfstate")));
  });

  await t.test("a change is planned as a change and only what depends on it follows", async () => {
    writeStack(world, { colour: "green", seconds: 0 });
    await world.exclave("release", "stack", "--channel", "stable", "--wait");
    await until("the consumer saw the change", () =>
      world.read("consumer.txt").includes("green-network"),
    );
    await untilHealthy(world, "acme");
    const latest = (await world.jobs("--install", "acme", "--component", "network")).find(
      ({ operation }) => operation === "plan",
    );
    assert.equal(latest?.plan?.risk, "replace");
  });

  await t.test(
    "kill -9 in the middle of an apply: on to healthy, no lock left, no resource twice",
    async () => {
      writeStack(world, { colour: "red", seconds: 4 });
      await world.exclave("release", "stack", "--channel", "stable", "--wait");
      await until(
        "the first resource is being made",
        () => world.read("resources.txt").includes("begin one red"),
        { everyMs: 50 },
      );
      assert.ok(world.kill(tool ?? "", "apply") > 0, "terraform itself was killed");
      world.kill("runner.mjs");

      await until("the consumer saw red", () => world.read("consumer.txt").includes("red-network"));
      await untilHealthy(world, "acme");

      assert.deepEqual(made(world, "create", "red"), ["create one red", "create two red"]);
      const inInstall = readdirSync(join(world.home, "installs/acme"), {
        recursive: true,
        encoding: "utf8",
      });
      assert.deepEqual(
        inInstall.filter((file) => file.endsWith(".lock.info")),
        [],
      );
      await world.exclave("audit", "verify");
    },
  );

  await t.test("destroy takes the resources down", async () => {
    await world.exclave("install", "destroy", "acme", "--yes", "--wait");
    assert.deepEqual(made(world, "destroy", "red"), ["destroy one red", "destroy two red"]);
  });
});

/** Every such line, twice if it happened twice. */
function made(world: World, action: string, colour: string): string[] {
  return lines(world.read("resources.txt"))
    .filter((line) => line.startsWith(action) && line.endsWith(colour))
    .sort();
}

function writeStack(world: World, { colour, seconds }: { colour: string; seconds: number }): void {
  const file = join(world.place, "resources.txt");
  const resource = (name: string) => `
resource "terraform_data" "${name}" {
  triggers_replace = var.colour
  input            = { colour = var.colour, file = "${file}" }
  provisioner "local-exec" {
    command = "echo begin ${name} $COLOUR >> ${file}; sleep ${seconds}; echo create ${name} $COLOUR >> ${file}"
    environment = { COLOUR = var.colour }
  }
  provisioner "local-exec" {
    when    = destroy
    command = "echo destroy ${name} $COLOUR >> $FILE"
    environment = { COLOUR = self.input.colour, FILE = self.input.file }
  }
}
`;
  world.write(
    "stack/network/main.tf",
    `variable "colour" { type = string }
${resource("one")}
${resource("two").replace("triggers_replace", "depends_on = [terraform_data.one]\n  triggers_replace")}
output "name" { value = "\${var.colour}-network" }
output "password" {
  value     = "not-for-the-server-\${var.colour}"
  sensitive = true
}
`,
  );
  world.write(
    "stack/consumer/apply.sh",
    `#!/bin/sh\necho "$NETWORK" > ${join(world.place, "consumer.txt")}\ntest -n "$PASSWORD"\n`,
  );
  world.write(
    "stack/exclave.yaml",
    `app: stack
components:
  - name: network
    type: terraform
    source: ./network
    variables: { colour: ${colour} }
    statusEverySeconds: 10
  - name: consumer
    type: command
    source: ./consumer
    apply: [./apply.sh]
    environment:
      NETWORK: "\${{ components.network.outputs.name }}"
      PASSWORD: "\${{ components.network.outputs.password }}"
    statusEverySeconds: 10
`,
  );
}

const provider = skip === false ? await terraformProviderLocal() : undefined;
const noProvider = skip || (provider?.kind === "unavailable" && provider.because);

test("what somebody changes outside is found as drift, shown, and put right by the next deploy", {
  skip: noProvider,
}, async (t) => {
  const world = await createWorld(t);
  const file = join(world.place, "made.txt");
  world.write(
    "files/module/main.tf",
    `variable "text" { type = string }
resource "local_file" "made" {
  filename = "${file}"
  content  = var.text
}
`,
  );
  world.write(
    "files/exclave.yaml",
    "app: files\ncomponents:\n  - name: made\n    type: terraform\n    source: ./module\n    variables: { text: one }\n    statusEverySeconds: 5\n",
  );
  assert.equal(provider?.kind, "ready");
  cpSync(provider.mirror, join(world.place, "files/module/.exclave/providers"), {
    recursive: true,
  });
  await world.up();
  await world.exclave("release", "files", "--channel", "stable", "--wait");
  await world.exclave("install", "create", "acme", "--app", "files", "--wait");
  await untilHealthy(world, "acme");
  assert.equal(readFileSync(file, "utf8"), "one");

  writeFileSync(file, "somebody else was here");
  await until("the drift is shown", async () => {
    const [component] = (await world.install("acme")).components;
    return component?.drift?.found === true && component.health === "degraded";
  });
  const [drifted] = (await world.install("acme")).components;
  assert.match(drifted?.drift?.summary ?? "", /local_file\.made/);

  world.write(
    "files/exclave.yaml",
    world.read("files/exclave.yaml").replace("text: one", "text: two"),
  );
  await world.exclave("release", "files", "--channel", "stable", "--wait");
  await until("it is put right", () => readFileSync(file, "utf8") === "two");
  await untilHealthy(world, "acme");

  await world.exclave("install", "destroy", "acme", "--yes", "--wait");
  assert.ok(!existsSync(file));
  await world.exclave("audit", "verify");
});
