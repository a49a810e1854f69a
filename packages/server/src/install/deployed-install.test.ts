import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { deployInstall, listJobs, setupInstall } from "@exclave/api";
import {
  CRM,
  create,
  deployedWorld,
  SOURCES,
  settled,
  show,
  WITHOUT_WEB,
  world,
} from "../testing/deployed-world.ts";
import { connectAgent, newMemory } from "../testing/scripted-agent.ts";
import { release } from "../testing/scripted-vendor.ts";
import { assertOnRecord, until } from "../testing/test-server.ts";

describe("a deployed install", () => {
  test("redeploys what changed, and only that", async (t) => {
    const at = await deployedWorld(t);
    at.install.done.length = 0;

    await release(at.server, CRM, { ...SOURCES, web: "web 2" }, { channel: "stable" });
    const view = await until(
      () => show(at),
      ({ phase, version }) => phase === "settled" && version === "2",
      "2 is there",
    );

    assert.deepEqual(at.install.done, ["sync", "apply web"]);
    assert.ok(view.components.every(({ state }) => state === "deployed"));
  });

  test("deploys again what reads an output that changed", async (t) => {
    const at = await deployedWorld(t);
    at.install.done.length = 0;

    await release(at.server, CRM, { ...SOURCES, api: "api 2" }, { channel: "stable" });
    await until(
      () => show(at),
      ({ phase, version }) => phase === "settled" && version === "2",
      "2 is there",
    );

    assert.deepEqual(at.install.done, ["sync", "apply api", "apply web"]);
  });

  test("is set up again when somebody asks: its agent joins anew, and what is there stays", async (t) => {
    const at = await deployedWorld(t);
    const before = at.install.identity();
    at.install.done.length = 0;

    await at.server.client.call(setupInstall, { params: { install: "acme" }, body: {} });
    await until(
      async () => at.install.identity()?.keyGeneration,
      (generation) => generation === 2,
      "the agent has joined anew",
    );
    const view = await settled(at);

    assert.equal(at.install.identity()?.agent, before?.agent);
    assert.deepEqual(
      at.install.done.filter((name) => !name.startsWith("sync")),
      ["sandbox apply"],
    );
    assert.ok(view.components.every(({ state }) => state === "deployed"));
    await assertOnRecord(at.server, "install.setup_asked", "agent.joined");
  });

  test("is set up again by itself when its agent is gone and the sandbox says why", async (t) => {
    let ahead = 0;
    // No ping is due while the clock leaps: a leap is not silence.
    const at = await deployedWorld(t, { now: () => Date.now() + ahead, pingMs: 2_000_000_000 });
    at.install.endings.set("sandbox status", {
      result: { type: "result", ok: true, health: "degraded", because: "no supervisor" },
    });
    await at.install.agent()?.disconnect();
    await until(
      () => show(at),
      ({ agent }) => agent.status === "offline",
      "offline",
    );
    at.install.done.length = 0;

    ahead = 10 * 60_000;
    const { context } = at.server.server;
    context.wake.allInstalls();
    await until(
      async () => at.install.identity()?.keyGeneration,
      (generation) => generation === 2,
      "the agent has joined anew",
    );

    assert.deepEqual(at.install.done.slice(0, 2), ["sandbox status", "sandbox apply"]);
    const jobs = await at.server.client.call(listJobs, {});
    const setup = jobs.items.find(({ because }) => because.includes("no supervisor"));
    assert.match(setup?.because ?? "", /its agent is gone, and the sandbox says: no supervisor/);
  });

  test("shows for a while that its agent lost the journal", async (t) => {
    let ahead = 0;
    const at = await deployedWorld(t, { now: () => Date.now() + ahead });
    assert.deepEqual((await show(at)).alarms, []);
    const identity = at.install.identity();
    assert.ok(identity);
    await at.install.agent()?.disconnect();

    const fresh = await connectAgent(identity, {}, newMemory());
    await fresh.say({ type: "inventory", at: 1, jobs: [] });

    const [alarm, ...others] = (await show(at)).alarms;
    assert.match(alarm?.because ?? "", /the agent started over: the agent's journal is a new one/);
    assert.deepEqual(others, []);
    ahead = 8 * 24 * 60 * 60_000;
    assert.deepEqual((await show(at)).alarms, []);
  });

  test("shows for a while what its agent noticed, the newest of a kind", async (t) => {
    let ahead = 0;
    const at = await deployedWorld(t, { now: () => Date.now() + ahead });
    const agent = at.install.agent();
    assert.ok(agent);

    const alarm = (code: string, because: string) =>
      agent.say({ type: "alarm", at: 1, code, because });
    await alarm("image_changed", "the unpacked image sha256:1 was changed");
    await alarm("image_changed", "the unpacked image sha256:2 was changed");
    await alarm("clock_set_back", "this machine's clock says 2020");

    const shown = (await show(at)).alarms.map(({ because }) => because);
    assert.deepEqual(shown, [
      "the unpacked image sha256:2 was changed",
      "this machine's clock says 2020",
    ]);
    ahead = 8 * 24 * 60 * 60_000;
    assert.deepEqual((await show(at)).alarms, []);
  });

  test("keeps a removed component until its removal is asked for by name", async (t) => {
    const at = await deployedWorld(t);
    at.install.done.length = 0;
    await release(at.server, WITHOUT_WEB, SOURCES, { channel: "stable" });
    const held = await until(
      () => show(at),
      ({ phase, version }) => phase === "held" && version === "2",
      "held",
    );
    assert.equal(held.components.find(({ name }) => name === "web")?.state, "removed");
    assert.match(held.holds[0]?.endsWhen ?? "", /--allow-destroy web/);

    const params = { install: "acme" as never };
    await assert.rejects(
      at.server.client.call(deployInstall, { params, body: { allowDestroy: ["nope"] } }),
      /has no component nope/,
    );
    await at.server.client.call(deployInstall, {
      params,
      body: { allowDestroy: ["web"] },
    });

    const view = await settled(at);
    assert.deepEqual(at.install.done, ["sync", "destroy web"]);
    assert.deepEqual(
      view.components.map(({ name }) => name),
      ["database", "api"],
    );
  });

  test("a failure blocks what depends on it, and a retry resumes from there", async (t) => {
    const at = await world(t);
    await release(at.server, CRM, SOURCES, { channel: "stable" });
    at.install.endings.set("apply api", {
      outcome: { kind: "failed", code: "plugin", message: "it will not start" },
    });
    await create(at);

    const held = await settled(at, "held");
    assert.deepEqual(
      held.components.map(({ name, state }) => [name, state]),
      [
        ["database", "deployed"],
        ["api", "failed"],
        ["web", "waiting"],
      ],
    );
    assert.equal(held.health, "degraded");
    assert.ok(
      held.holds.some(({ component, because }) => component === "web" && /api/.test(because)),
    );

    await at.server.client.call(deployInstall, { params: { install: "acme" }, body: {} });
    await settled(at);
    assert.deepEqual(at.install.done.slice(-3), ["apply api", "apply api", "apply web"]);
  });

  test("a rejected job counts as a failure with its code", async (t) => {
    const at = await deployedWorld(t);
    const { items } = await at.server.client.call(listJobs);
    assert.ok(items.every(({ state }) => state === "succeeded"));
    await at.install.agent()?.disconnect();
    const identity = at.install.identity();
    assert.ok(identity);
    await connectAgent(
      identity,
      {
        onOffer: ({ id: job, attempt }) => [
          { type: "job_rejected", job, attempt, at: 1, code: "policy", because: "not on Sundays" },
        ],
      },
      at.install.memory(),
    );

    await release(at.server, CRM, { ...SOURCES, web: "web 2" }, { channel: "stable" });
    const held = await until(
      () => show(at),
      ({ phase, version }) => phase === "held" && version === "2",
      "held",
    );

    assert.match(
      held.holds.map(({ because }) => because).join(),
      /the sync failed \(policy\): not on Sundays/,
    );
    await assertOnRecord(at.server, "job.rejected");
  });

  test("shows health and drift as the agent reports them", async (t) => {
    const at = await deployedWorld(t);
    const agent = at.install.agent();
    for (const component of ["database", "api", "web"]) {
      await agent?.say({ type: "health", at: 1, component, health: "healthy", because: "answers" });
    }
    assert.equal((await show(at)).health, "healthy");

    const drift = { found: true, summary: "1 changed outside" };
    await agent?.say({
      type: "health",
      at: 2,
      component: "database",
      health: "degraded",
      because: "drift",
      drift,
    });

    const view = await show(at);
    assert.equal(view.health, "degraded");
    assert.deepEqual(view.components[0]?.drift, drift);
  });

  test("offers nothing new while its agent is away, and goes on when it is back", async (t) => {
    const at = await deployedWorld(t);
    at.install.done.length = 0;
    await at.install.agent()?.disconnect();

    await release(at.server, CRM, { ...SOURCES, web: "web 2" }, { channel: "stable" });
    const held = await until(
      () => show(at),
      ({ phase, version }) => phase === "held" && version === "2",
      "held",
    );
    assert.match(held.holds[0]?.because ?? "", /the agent is offline since/);
    assert.deepEqual(at.install.done, []);

    await at.install.reconnect();
    await settled(at);
    assert.deepEqual(at.install.done, ["sync", "apply web"]);
  });

  test("changed inputs deploy what reads them", async (t) => {
    const at = await deployedWorld(t);
    at.install.done.length = 0;
    const params = { install: "acme" as never };

    await assert.rejects(
      at.server.client.call(deployInstall, { params, body: { inputs: { title: 7 } } }),
      /title must be a string/,
    );
    await at.server.client.call(deployInstall, { params, body: { inputs: { title: "New" } } });

    await until(
      async () => at.install.done.length,
      (count) => count === 1,
      "a deploy",
    );
    await settled(at);
    assert.deepEqual(at.install.done, ["apply web"]);
  });

  test("a release asked for by name is kept until a channel is followed again", async (t) => {
    const at = await deployedWorld(t);
    await release(at.server, CRM, { ...SOURCES, web: "web 2" }, { channel: "stable" });
    await until(
      () => show(at),
      ({ phase, version }) => phase === "settled" && version === "2",
      "2",
    );
    const params = { install: "acme" as never };

    await at.server.client.call(deployInstall, { params, body: { release: "1" } });
    await until(
      () => show(at),
      ({ phase, version }) => phase === "settled" && version === "1",
      "back to 1",
    );
    await at.server.client.call(deployInstall, { params, body: { channel: "stable" } });
    await until(
      () => show(at),
      ({ phase, version }) => phase === "settled" && version === "2",
      "2 again",
    );

    await assert.rejects(
      at.server.client.call(deployInstall, { params, body: { release: "9" } }),
      /there is no release 9 of crm/,
    );
  });
});
