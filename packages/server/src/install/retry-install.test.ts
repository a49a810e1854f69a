// Failures and retries through the whole server: link, store, consequences, planner, loop.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { deployInstall } from "@exclave/api";
import { SOURCES } from "../testing/deployed-world.ts";
import { deployTimed, type TimedWorld, timedWorld } from "../testing/virtual-clock.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

const TERRAFORM = `app: crm
inputs: [{ name: title, required: true }]
components:
  - { name: database, type: terraform, source: ./database }
`;
const MIGRATION = TERRAFORM.replace("type: terraform", "type: migration");

function count({ install }: TimedWorld, name: string): number {
  return install.done.filter((done) => done === name).length;
}

function deploy({ server }: TimedWorld) {
  return server.client.call(deployInstall, { params: { install: "acme" }, body: {} });
}

describe("a failing apply", () => {
  test("runs at most 6 times in ten minutes, then is held with the command that retries", async (t) => {
    const at = await timedWorld(t);
    at.install.always.set("apply database", {
      outcome: { kind: "failed", code: "tool", message: "no such instance type" },
    });

    let view = await deployTimed(at, TERRAFORM, SOURCES);
    for (let passed = 0; passed < 10 * MINUTE_MS; passed += 10_000) view = await at.pass(10_000);
    const first = count(at, "apply database");
    view = await at.pass(HOUR_MS);

    assert.ok(first > 1 && first <= 6, `${first} applies`);
    assert.equal(count(at, "apply database"), first);
    assert.match(
      view.holds[0]?.because ?? "",
      /apply failed \(tool\): no such instance type; it failed 6 times in a row/,
    );
    assert.match(view.holds[0]?.endsWhen ?? "", /`exclave install deploy acme`/);

    at.install.always.clear();
    await deploy(at);
    assert.equal((await at.pass(0)).phase, "settled");
  });

  test("is retried for as long as there is no room, and goes on once there is", async (t) => {
    const at = await timedWorld(t);
    at.install.always.set("apply database", {
      outcome: { kind: "failed", code: "disk_full", message: "no space left on device" },
    });

    await deployTimed(at, TERRAFORM, SOURCES);
    for (let passed = 0; passed < 2 * HOUR_MS; passed += 5 * MINUTE_MS) {
      const held = await at.pass(5 * MINUTE_MS);
      assert.match(held.holds[0]?.because ?? "", /no space left on device/);
    }
    at.install.always.clear();

    assert.equal((await at.pass(5 * MINUTE_MS)).phase, "settled");
  });
});

describe("an apply that may run at most once", () => {
  for (const outcome of [
    { kind: "unknown", because: "its runner was killed" },
    { kind: "failed", code: "lost", message: "it was ended by SIGKILL" },
    { kind: "failed", code: "out_of_memory", message: "it used too much" },
  ] as const) {
    test(`is not run again by itself after it ended ${outcome.kind}, and the hold says how it is`, async (t) => {
      const at = await timedWorld(t);
      at.install.endings.set("apply database", { outcome });

      await deployTimed(at, MIGRATION, SOURCES);
      const held = await at.pass(24 * HOUR_MS);

      assert.equal(count(at, "apply database"), 1);
      assert.match(held.holds[0]?.because ?? "", /it may have run, and it must not be run twice/);
      assert.match(held.holds[0]?.endsWhen ?? "", /`exclave install deploy acme`/);

      await deploy(at);
      assert.equal((await at.pass(0)).phase, "settled");
      assert.equal(count(at, "apply database"), 2);
    });
  }

  test("is run when it is known not to have begun", async (t) => {
    const at = await timedWorld(t);
    at.install.refusals.set("apply database", "expired");

    await deployTimed(at, MIGRATION, SOURCES);
    const view = await at.pass(MINUTE_MS);

    assert.equal(view.phase, "settled");
    assert.equal(count(at, "apply database"), 1);
  });
});

test("an idempotent apply whose runner was killed or out of memory is retried", async (t) => {
  const at = await timedWorld(t);
  at.install.endings.set("apply database", {
    outcome: { kind: "failed", code: "out_of_memory", message: "it used too much" },
  });

  await deployTimed(at, TERRAFORM, SOURCES);
  const view = await at.pass(MINUTE_MS);

  assert.equal(view.phase, "settled");
  assert.equal(count(at, "apply database"), 2);
});
