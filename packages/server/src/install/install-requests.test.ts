import assert from "node:assert/strict";
import { describe, type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import {
  cancelJob,
  destroyInstall,
  FRAME_BYTES_MAX,
  forgetInstall,
  getJob,
  listInstalls,
  listJobs,
  runInInstall,
  type ServerFrame,
  setupInstall,
} from "@exclave/api";
import {
  CRM,
  create,
  deployedWorld,
  SOURCES,
  settled,
  show,
  type World,
  world,
} from "../testing/deployed-world.ts";
import { jobRow } from "../testing/rows.ts";
import { buildAgent, digestNamed, release } from "../testing/scripted-vendor.ts";
import { assertOnRecord, testServer, until } from "../testing/test-server.ts";

describe("log requests and debug commands", () => {
  test("are jobs with the deployed component's own plugin and artifact", async (t) => {
    const at = await deployedWorld(t);
    const params = { install: "acme" as never, component: "api" as never };
    at.install.endings.set("exec api", {
      result: { type: "result", ok: true, exitCode: 3 },
      log: "PATH=/bin\n",
    });

    const job = await at.server.client.call(runInInstall, {
      params,
      body: { operation: "exec", command: ["env"] },
    });

    const ended = await until(
      () => at.server.client.call(getJob, { params: { job: job.id } }),
      ({ state }) => state === "succeeded",
      "the command ended",
    );
    assert.equal(ended.exitCode, 3);
    const manifest = at.install.manifests.at(-1);
    assert.equal(manifest?.steps[0]?.effect, "at-most-once");
    assert.deepEqual(manifest?.steps[0]?.parameters, { command: ["env"], timeoutSeconds: 60 });
    assert.equal(manifest?.steps[0]?.artifact?.repository, `apps/${manifest?.app}/api`);
  });

  test("of more bytes than a manifest may have are refused, and the agent stays where it is", async (t) => {
    const at = await deployedWorld(t);
    const exec = (bytes: number) =>
      at.server.client.call(runInInstall, {
        params: { install: "acme", component: "api" },
        body: { operation: "exec", command: ["echo", "x".repeat(bytes)] },
      });
    const offered = at.install.manifests.length;
    const connections = at.install.agent()?.memory.journalId;

    await assert.rejects(exec(300 * 1024), (problem: { code: string; message: string }) => {
      assert.equal(problem.code, "too_large");
      assert.match(problem.message, /its arguments are 3\d{5} of them; the limit is 196608/);
      return true;
    });
    const job = await exec(180 * 1024);
    await until(
      () => at.server.client.call(getJob, { params: { job: job.id } }),
      ({ state }) => state === "succeeded",
      "the largest that may be was delivered",
    );

    assert.equal(at.install.manifests.length, offered + 1);
    assert.equal(at.install.agent()?.memory.journalId, connections);
    const largest = at.install.agent()?.frames.map((frame) => JSON.stringify(frame).length) ?? [];
    assert.ok(Math.max(...largest) <= FRAME_BYTES_MAX);
  });

  test("are refused where they cannot work, with the reason", async (t) => {
    const at = await deployedWorld(t);
    const ask = (component: string, operation: "logs" | "exec") =>
      at.server.client.call(runInInstall, {
        params: { install: "acme", component },
        body: operation === "logs" ? { operation } : { operation, command: ["env"] },
      });

    await assert.rejects(ask("nope", "logs"), /nope is not deployed in acme/);
    await assert.rejects(
      ask("database", "exec"),
      /database is a terraform, and terraform has no exec/,
    );
    await at.install.agent()?.disconnect();
    await until(
      () => show(at),
      ({ agent }) => agent.status === "offline",
      "offline",
    );
    await assert.rejects(ask("api", "logs"), /the agent of acme is not connected/);
  });
});

describe("a reader that goes away", () => {
  test("takes its log request along, unless somebody else reads it", async (t) => {
    const at = await deployedWorld(t, { followerGraceMs: 1_500 });
    const agent = at.install.agent();
    assert.ok(agent);
    at.install.leaveRunning.add("logs api");
    const job = await at.server.client.call(runInInstall, {
      params: { install: "acme", component: "api" },
      body: { operation: "logs", follow: true },
    });
    const isAsked = () =>
      agent.frames.some((frame) => frame.type === "command" && frame.body.type === "job_cancel");
    // Its headers are sent when it counts as a reader.
    const read = async (signal: AbortSignal) => {
      const headers = { authorization: `Bearer ${at.server.token}` };
      const url = `${at.server.url}/v1/jobs/${job.id}/log?follow=true`;
      const response = await fetch(url, { headers, signal });
      assert.equal(response.status, 200);
      return response.text();
    };
    const first = new AbortController();
    const second = new AbortController();
    const readers = [first, second].map(({ signal }) => read(signal));
    await until(
      async () => at.install.done.at(-1),
      (last) => last === "logs api",
      "it runs",
    );

    first.abort();
    await assert.rejects(readers[0] ?? Promise.resolve());
    await sleep(2_500);
    assert.equal(isAsked(), false);
    second.abort();
    await assert.rejects(readers[1] ?? Promise.resolve());

    await until(async () => isAsked(), Boolean, "the job is asked to stop");
  });
});

describe("cancelling", () => {
  test("reaches the agent that runs the job, and its word ends it", async (t) => {
    const at = await deployedWorld(t);
    const agent = at.install.agent();
    assert.ok(agent);
    const told = agent.next(
      (frame) => frame.type === "command" && frame.body.type === "job_cancel",
    );
    at.install.leaveRunning.add("exec api");
    const job = await at.server.client.call(runInInstall, {
      params: { install: "acme", component: "api" },
      body: { operation: "exec", command: ["sleep", "60"] },
    });
    await until(
      async () => at.install.done.at(-1),
      (last) => last === "exec api",
      "it runs",
    );

    const params = { job: job.id };
    await at.server.client.call(cancelJob, { params, body: {} });
    const manifest = at.install.manifests.at(-1);
    assert.ok(manifest);
    await told;
    assert.equal((await at.server.client.call(getJob, { params })).state, "running");
    await agent.end(manifest, { outcome: { kind: "cancelled" } });

    assert.equal((await at.server.client.call(getJob, { params })).state, "cancelled");
    await assertOnRecord(at.server, "job.cancel_requested", "job.ended");
  });

  test("a job nobody has heard of is not made anew until somebody asks", async (t) => {
    const at = await deployedWorld(t);
    at.install.done.length = 0;
    const { store, now, wake } = at.server.server.context;
    // A sync that lies in the outbox of an agent that just left.
    await at.install.agent()?.disconnect();
    await until(
      () => show(at),
      ({ agent }) => agent.status === "offline",
      "offline",
    );
    const { id } = await show(at);
    const job = jobRow({
      audience: id as never,
      install: id as never,
      operation: "sync",
      state: { status: "queued", since: now() },
      purpose: { kind: "sync", key: digestNamed("key"), materials: [] },
    });
    await store.transaction((tx) => tx.jobs.put(job));

    await at.server.client.call(cancelJob, { params: { job: job.id }, body: {} });
    const install = await store.read.installs.byName("acme");
    assert.ok(install);
    wake.install(install.id);

    assert.equal(install?.syncFailure?.code, "cancelled");
    assert.equal((await store.read.jobs.get(job.id))?.state.status, "cancelled");
  });
});

describe("the end of an install", () => {
  test("takes the components down in reverse, then the sandbox, then seals the record", async (t) => {
    const at = await deployedWorld(t);
    at.install.done.length = 0;
    const params = { install: "acme" as never };
    await assert.rejects(at.server.client.call(forgetInstall, { params }), /is not destroyed/);

    await at.server.client.call(destroyInstall, { params, body: {} });
    const view = await settled(at, "destroyed");

    assert.deepEqual(at.install.done, [
      "destroy web",
      "destroy api",
      "destroy database",
      "sandbox destroy",
    ]);
    assert.deepEqual(view.components, []);
    await until(
      () => at.server.server.context.store.read.agents.byAudience(view.id as never),
      (agent) => agent?.revokedAt !== null,
      "revoked",
    );
    await assert.rejects(at.install.reconnect(), /revoked/);
    await assertOnRecord(at.server, "install.destroy_asked", "install.sealed", "agent.revoked");

    await assert.rejects(
      create(at),
      /there is an install acme already; it is destroyed, and `exclave install forget acme` frees its name/,
    );
    const { note } = await at.server.client.call(forgetInstall, { params });
    assert.match(note, /record stays/);
    assert.deepEqual((await at.server.client.call(listInstalls)).items, []);
  });

  test("ends what somebody asked for in it and its agent never told the end of", async (t) => {
    const at = await deployedWorld(t);
    at.install.leaveRunning.add("logs api");
    const job = await at.server.client.call(runInInstall, {
      params: { install: "acme", component: "api" },
      body: { operation: "logs" },
    });

    const params = { install: "acme" as never };
    await at.server.client.call(destroyInstall, { params, body: {} });

    const { jobs } = at.server.server.context.store.read;
    const ended = await until(
      () => jobs.get(job.id),
      (row) => row?.endedAt != null,
      "it has ended",
    );
    assert.equal(ended?.state.status, "unknown");
  });

  test("its name stays taken while it is there, and nothing is said about forgetting it", async (t) => {
    const at = await deployedWorld(t);

    await assert.rejects(create(at), { message: "there is an install acme already" });
  });

  test("asks a sync to stop that nobody needs any more, and says that it waits for it", async (t) => {
    const at = await syncing(t);
    const params = { install: "acme" as never };
    const agent = at.install.agent();
    const [sync] = at.install.manifests;
    assert.ok(agent && sync);
    const isStop = (frame: ServerFrame) =>
      frame.type === "command" && frame.body.type === "job_cancel" && frame.body.job === sync.id;

    const asked = await at.server.client.call(destroyInstall, { params, body: {} });
    await until(
      async () => agent.frames,
      (frames) => frames.some(isStop),
      "it is told to stop",
    );
    const waiting = await show(at);
    await agent.end(sync, { outcome: { kind: "cancelled" } });
    const gone = await settled(at, "destroyed");

    const because = `sync job ${sync.id} is running, and was asked to stop`;
    assert.ok(because.startsWith(asked.holds[0]?.because ?? "nothing"));
    const [hold] = waiting.holds;
    assert.deepEqual(hold, { component: null, because, endsWhen: "the job ends", command: null });
    assert.deepEqual(gone.holds, []);
    assert.equal(agent.frames.filter(isStop).length, 1);
    await assertOnRecord(at.server, "install.destroy_asked", "job.cancel_requested", "job.ended");
  });

  test("waits for a sync of an agent that is away, and names what brings it back", async (t) => {
    const at = await syncing(t);
    await at.install.agent()?.disconnect();
    await until(
      () => show(at),
      ({ agent }) => agent.status === "offline",
      "offline",
    );

    await at.server.client.call(destroyInstall, { params: { install: "acme" }, body: {} });

    const { holds } = await show(at);
    assert.deepEqual(
      holds.map(({ command }) => command),
      ["exclave install setup acme"],
    );
    const set = await at.server.client.call(setupInstall, {
      params: { install: "acme" },
      body: {},
    });
    assert.match(set.holds[0]?.because ?? "setup is next", /^setup (job|is next)/);
  });

  test("does not wait for a component that was planned and never applied", async (t) => {
    const at = await world(t);
    await release(at.server, CRM, SOURCES, { channel: "stable" });
    at.install.endings.set("plan database", {
      outcome: { kind: "failed", code: "plugin", message: "no such module" },
    });
    await create(at);
    await settled(at, "held");

    await at.server.client.call(destroyInstall, { params: { install: "acme" }, body: {} });

    await settled(at, "destroyed");
  });

  test("an install whose setup never ran is gone at once", async (t) => {
    const server = await testServer(t);
    await buildAgent(server);
    await release(server, CRM, SOURCES, { channel: "stable" });
    await create({ server, install: undefined as never });

    await server.client.call(destroyInstall, { params: { install: "acme" }, body: {} });

    await settled({ server }, "destroyed");
  });

  test("forgetting by force touches nothing, and says so", async (t) => {
    const at = await deployedWorld(t);
    at.install.done.length = 0;

    const forgotten = await at.server.client.call(forgetInstall, {
      params: { install: "acme" },
      query: { force: "true" },
    });

    assert.match(forgotten.note, /whatever ran there still runs/);
    assert.deepEqual(at.install.done, []);
    await assertOnRecord(at.server, "install.forgotten");
  });
});

/** A new install whose first sync goes on until a test ends it. */
async function syncing(t: TestContext): Promise<World> {
  const at = await world(t);
  await release(at.server, CRM, SOURCES, { channel: "stable" });
  at.install.leaveRunning.add("sync");
  await create(at);
  await until(
    () => at.server.client.call(listJobs, { query: { install: "acme", state: "running" } }),
    ({ items }) => items.some(({ operation }) => operation === "sync"),
    "the sync runs",
  );
  return at;
}
