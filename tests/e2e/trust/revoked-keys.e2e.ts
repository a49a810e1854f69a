// Keys are replaced while an agent is away, and a release key is revoked: the agent catches up version by
// version, old statements count nowhere, and installs go on.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { AuditView } from "@exclave/api";
import { until, untilHealthy, type World } from "../testing/harness.ts";
import { createShopWorld, writeShop } from "../testing/shop-app.ts";
import { trustVersion } from "./testing/trust-version.ts";

const AGENT = ["agent.mjs", "install", "installs/acme"] as const;
const BUILD_AGENT = ["agent/src/main.ts", "build", "agents/build"] as const;

test("keys are replaced while an agent is away, and a release key is revoked", async (t) => {
  const world = await createShopWorld(t);
  const first = trustVersion(world);

  await t.test("an agent that was away during two rotations of three keys catches up", async () => {
    const supervisors = pausing(world, "init.mjs", "installs/acme");
    assert.ok(world.kill(...AGENT) > 0);
    await until("it is seen to be gone", async () => {
      return (await world.install("acme")).agent.status === "offline";
    });
    for (const role of ["director", "release", "root", "director", "release", "root"]) {
      await world.exclave("keys", "rotate", role);
    }
    await release(world, "green");
    assert.equal(world.pids(...AGENT).length, 0, "nobody started it meanwhile");
    assert.equal(trustVersion(world), first);

    supervisors.goOn();
    await until("it has followed each version", () => trustVersion(world) === first + 6);
    await deployed(world, "green");

    const rows = await audit(world);
    const followed = rows.filter(({ action }) => action === "agent.trust_changed");
    assert.ok(followed.length >= 6, `${followed.length} versions`);
    assert.deepEqual(refusals(rows), []);
  });

  await t.test(
    "after a release key was revoked old statements count nowhere, releases are stated again, installs go on",
    async () => {
      // Nothing can be stated again without the build agent, which attaches it.
      const build = pausing(world, ...BUILD_AGENT);
      await world.exclave("keys", "rotate", "release", "--revoke", "--yes");
      await until("the agent has followed", () => trustVersion(world) === first + 7);
      const refused = await world.attempt("exec", "acme", "web", "--", "echo", "by the old key");

      assert.notEqual(refused.code, 0);
      assert.doesNotMatch(refused.stdout, /by the old key/);
      const jobs = await world.jobs("--install", "acme");
      const last = jobs.find(({ operation }) => operation === "exec");
      assert.match(last?.failure?.message ?? "", /the key that signed release .* was revoked/);

      build.goOn();
      await until("both releases are stated again", async () => {
        const rows = await audit(world);
        return rows.filter(({ action }) => action === "release.stated_again").length === 2;
      });
      await until("the install goes on by the new statement", async () => {
        const { code, stdout } = await world.attempt("exec", "acme", "web", "--", "echo", "anew");
        return code === 0 && stdout.includes("anew");
      });
      await release(world, "violet");
      await deployed(world, "violet");
    },
  );
});

/** Processes of this world that do nothing until they are let go on. */
function pausing(world: World, ...words: readonly string[]) {
  const pids = world.pids(...words);
  assert.ok(pids.length > 0, words.join(" "));
  for (const pid of pids) process.kill(pid, "SIGSTOP");
  return {
    goOn: () => {
      for (const pid of pids) process.kill(pid, "SIGCONT");
    },
  };
}

function release(world: World, colour: string): Promise<string> {
  return world.exclave("release", writeShop(world, { colour }), "--channel", "stable", "--wait");
}

async function deployed(world: World, colour: string): Promise<void> {
  await until(`${colour} is deployed`, async () => {
    const { components } = await world.install("acme");
    const api = components.find(({ name }) => name === "api");
    return JSON.stringify(api?.outputs ?? {}).includes(colour);
  });
  await untilHealthy(world, "acme");
}

function audit(world: World): Promise<AuditView[]> {
  return world.json("audit", "list", "--limit", "5000");
}

function refusals(rows: readonly AuditView[]): AuditView[] {
  return rows.filter(
    ({ action, details }) =>
      action === "job.rejected" || (action === "agent.alarm" && details["code"] !== "damaged"),
  );
}
