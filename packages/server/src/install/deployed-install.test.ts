import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { deployInstall, listJobs } from "@exclave/api";
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
import { connectAgent } from "../testing/scripted-agent.ts";
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

  test("a failure blocks what depends on it, and a retry goes on from there", async (t) => {
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
      at.install.memory,
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
