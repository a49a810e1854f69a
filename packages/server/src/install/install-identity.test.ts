// An install is its id. Its name is what people call it, and may be another install's later.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import {
  createInstall,
  decodeJoinString,
  destroyInstall,
  forgetInstall,
  getInstall,
  listAudit,
  listJobs,
} from "@exclave/api";
import { createJoin } from "../joins.ts";
import {
  CRM,
  create,
  deployedWorld,
  settled,
  show,
  type World,
} from "../testing/deployed-world.ts";
import { join } from "../testing/scripted-agent.ts";
import { release } from "../testing/scripted-vendor.ts";
import { until } from "../testing/test-server.ts";

async function forgotten(at: World) {
  const params = { install: "acme" as never };
  await at.server.client.call(forgetInstall, { params, query: { force: "true" } });
}

describe("an install that has the name of one that was forgotten", () => {
  test("is set up, connects and deploys, and meets nothing of its predecessor", async (t) => {
    const at = await deployedWorld(t);
    const before = await show(at);
    const old = at.install.identity();
    const { items: oldJobs } = await at.server.client.call(listJobs, {
      query: { install: "acme" },
    });
    await forgotten(at);
    at.install.done.length = 0;
    at.install.manifests.length = 0;

    await create(at, { title: "Acme again" });
    const view = await settled(at);

    assert.notEqual(view.id, before.id);
    assert.notEqual(at.install.identity()?.agent, old?.agent);
    assert.equal(at.install.done[0], "sandbox apply");
    assert.ok(at.install.manifests.every(({ audience }) => audience === view.id));
    assert.equal(Math.min(...at.install.manifests.map(({ issueNo }) => issueNo)), 1);
    const { items } = await at.server.client.call(listJobs, { query: { install: "acme" } });
    assert.ok(items.every(({ installId }) => installId === view.id));
    assert.ok(oldJobs.every(({ id }) => !items.some((job) => job.id === id)));
  });

  test("is told apart from it on record, where each is named by its id", async (t) => {
    const at = await deployedWorld(t);
    const { id } = await show(at);
    await forgotten(at);
    await create(at);

    const ofName = await at.server.client.call(listAudit, { query: { subject: "acme" } });
    const ofOld = await at.server.client.call(listAudit, { query: { subject: id } });

    const actions = (items: readonly { action: string }[]) => items.map(({ action }) => action);
    assert.ok(!actions(ofName.items).includes("install.forgotten"));
    assert.ok(actions(ofOld.items).includes("install.forgotten"));
    assert.equal(
      ofOld.items.find(({ action }) => action === "install.created")?.details["name"],
      "acme",
    );
  });

  test("does not hear of the old install's agent again, which is not let in", async (t) => {
    const at = await deployedWorld(t);
    const { agent } = await show(at);
    await at.install.agent()?.disconnect();
    await forgotten(at);

    await assert.rejects(at.install.reconnect(), /no agent with that id and key/);
    assert.equal(await at.server.server.context.store.read.agents.get(agent.id ?? ""), undefined);
  });
});

test("a join string does not bring back an install that was forgotten since", async (t) => {
  const at = await deployedWorld(t);
  const { context } = at.server.server;
  const install = await context.store.read.installs.byName("acme");
  assert.ok(install);
  const { joinString } = await context.store.transaction((tx) =>
    createJoin(tx, context, { kind: "install", audience: install.id, install, by: "test" }),
  );
  assert.deepEqual(
    [decodeJoinString(joinString)?.install, decodeJoinString(joinString)?.app],
    ["acme", install.app],
  );
  await forgotten(at);

  await assert.rejects(join(joinString), /an install that is not known here/);
  assert.equal(await context.store.read.agents.byAudience(install.id), undefined);
});

test("an install is found by its name and by its id", async (t) => {
  const at = await deployedWorld(t);
  const byName = await show(at);

  const byId = await at.server.client.call(getInstall, { params: { install: byName.id } });

  assert.deepEqual([byId.id, byId.name], [byName.id, "acme"]);
});

test("the jobs of an install are also those that make and take down its sandbox", async (t) => {
  const at = await deployedWorld(t);
  const { id } = await show(at);
  await at.server.client.call(destroyInstall, { params: { install: "acme" }, body: {} });
  await settled(at, "destroyed");

  for (const install of ["acme", id]) {
    const query = { install, component: "sandbox" };
    const { items } = await at.server.client.call(listJobs, { query });
    assert.deepEqual(
      items.map((job) => [job.operation, job.install, job.installId]),
      [
        ["destroy", "acme", id],
        ["apply", "acme", id],
      ],
    );
  }
  const ofSetup = await at.server.client.call(listJobs, { query: { install: "setup" } });
  assert.equal(ofSetup.items.length, 2);
  await assert.rejects(
    at.server.client.call(listJobs, { query: { install: "nobody" } }),
    /there is no install nobody/,
  );
});

test("what has the form of an id is nobody's name", async (t) => {
  const at = await deployedWorld(t);
  const body = { name: "iaaaaaaaaaaaaaaaa", app: "crm", inputs: { title: "x" } };
  await assert.rejects(at.server.client.call(createInstall, { body }), /cannot be called/);

  const config = CRM.replace("app: crm", "app: paaaaaaaaaaaaaaaa");
  await assert.rejects(
    release(at.server, config, { database: "tf", api: "api", web: "web" }),
    /cannot be called/,
  );
});

test("an app keeps its id from release to release", async (t) => {
  const at = await deployedWorld(t);
  const { appId } = await show(at);

  const second = await release(at.server, CRM, { database: "tf", api: "new", web: "web" });

  assert.deepEqual([second.app, second.appId], ["crm", appId]);
  await until(
    async () => second.state,
    (state) => state === "ready",
    "it is ready",
  );
});
