import assert from "node:assert/strict";
import { rm } from "node:fs/promises";
import { type TestContext, test } from "node:test";
import { Failure } from "@exclave/core";
import { definePlugin, z } from "./define-plugin.ts";
import { createTestContext, type TestContextOptions } from "./testing/test-context.ts";

const plugin = definePlugin({
  type: "greeting",
  description: "says hello",
  config: z.strictObject({ name: z.string(), times: z.int().default(1) }),
  outputs: {},
  async apply(context) {
    context.log(`hello ${context.config.name}`);
    context.output("times", context.config.times);
  },
  async exec() {
    return { exitCode: 7 };
  },
});

async function greeting(t: TestContext, options: TestContextOptions) {
  const made = await createTestContext(plugin, options);
  t.after(() => rm(made.directory, { recursive: true, force: true }));
  return made;
}

test("an operation gets the configuration as the plugin's schema reads it", async (t) => {
  const context = await greeting(t, { config: { name: "Ada" } });

  const { logs, outputs } = await context.run("apply");

  assert.deepEqual(logs, ["hello Ada"]);
  assert.deepEqual(outputs, { times: 1 });
});

test("an operation's outcome is handed back", async (t) => {
  const context = await greeting(t, { config: { name: "Ada" } });

  assert.equal((await context.run("exec")).exitCode, 7);
});

test("a configuration the plugin does not understand is refused with every problem", async (t) => {
  const context = await greeting(t, { config: { times: "many", nmae: "Ada" } });

  await assert.rejects(context.run("apply"), (reason: Failure) => {
    assert.equal(reason.code, "invalid");
    assert.match(reason.message, /name: .*times: .*nmae/);
    return true;
  });
});

test("an operation the plugin does not offer is refused with what it does offer", async (t) => {
  const context = await greeting(t, { config: { name: "Ada" } });

  await assert.rejects(
    context.run("plan"),
    new Failure("invalid", "the plugin greeting has no plan; it offers apply, exec"),
  );
});

test("the descriptor says which operations there are and what running one twice does", () => {
  assert.deepEqual(plugin.descriptor.operations, {
    apply: { effect: "idempotent" },
    exec: { effect: "at-most-once" },
  });
  assert.deepEqual(plugin.descriptor.configSchema.required, ["name"]);
});
