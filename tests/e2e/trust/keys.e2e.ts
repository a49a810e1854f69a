// Every key is replaced from the command line while jobs are issued and run: none is lost and none
// refused. Then the root key is taken offline, and is needed.

import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { type CommandResult, until, untilHealthy, type World } from "../testing/harness.ts";
import { createShopWorld, writeShop } from "../testing/shop-app.ts";
import { trustVersion } from "./testing/trust-version.ts";

test("keys are replaced while jobs run: none is lost, none refused", async (t) => {
  const world = await createShopWorld(t);
  const first = trustVersion(world);

  await t.test("director, release, checkpoint and root, one after the other", async () => {
    const load = startLoad(world);
    // A release is built, signed and deployed meanwhile: the release key is in use, too.
    const app = writeShop(world, { colour: "green" });
    const released = world.exclave("release", app, "--channel", "stable", "--wait");
    const rotations = [
      ["director"],
      ["release"],
      ["checkpoint"],
      ["root"],
      ["director", "--revoke", "--yes"],
    ];
    for (const [index, rotation] of rotations.entries()) {
      const before = load.count();
      await world.exclave("keys", "rotate", ...rotation);
      await until("the agent has followed", () => trustVersion(world) === first + index + 1);
      await until("jobs went on", () => load.count() >= before + 2);
    }
    await released;
    await untilHealthy(world, "acme");
    await world.exclave("exec", "acme", "web", "--", "echo", "after");
    const results = await load.end();

    assert.ok(results.length >= 2 * rotations.length, "jobs were issued meanwhile");
    for (const { stdout, stderr, code } of results) {
      assert.equal(code, 0, stderr);
      assert.match(stdout, /under load/);
    }
    const jobs = await world.jobs("--install", "acme");
    const execs = jobs.filter(({ operation }) => operation === "exec");
    assert.equal(execs.length, results.length + 1);
    assert.deepEqual([...new Set(execs.map(({ state }) => state))], ["succeeded"]);
    const audit = await world.exclave("audit", "list", "--limit", "5000");
    assert.doesNotMatch(audit, /job\.rejected|trust_signature|trust_invalid|record_refused/);
    await world.exclave("audit", "verify");
  });

  await t.test("the root key is taken offline, and is needed from then on", async () => {
    const file = join(world.place, "root.pem");
    await world.exclave("keys", "root", "export", file, "--yes");
    const refused = await world.attempt("keys", "rotate", "director");
    assert.notEqual(refused.code, 0, "without the root key nothing is published");
    assert.match(refused.stderr, /--root-key/);
    await world.exclave("keys", "rotate", "director", "--root-key", file, "--yes");
    await until("the agent has followed once more", () => trustVersion(world) === first + 6);
    assert.match(await world.exclave("keys", "show"), /director/);
    await world.exclave("exec", "acme", "web", "--", "echo", "still here");
  });
});

/** Two people who run one command after the other in the install. */
function startLoad(world: World): { count(): number; end(): Promise<CommandResult[]> } {
  const over = new AbortController();
  const results: CommandResult[] = [];
  const person = async () => {
    while (!over.signal.aborted) {
      results.push(await world.attempt("exec", "acme", "web", "--", "echo", "under load"));
    }
  };
  const people = Promise.all([person(), person()]);
  return {
    count: () => results.length,
    async end() {
      over.abort();
      await people;
      return results;
    },
  };
}
