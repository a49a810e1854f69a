import assert from "node:assert/strict";
import { describe, type TestContext, test } from "node:test";
import {
  createInstall,
  decodeJoinString,
  deployInstall,
  destroyInstall,
  forgetInstall,
  getInstall,
  getJob,
  type InstallView,
  listInstalls,
  listJobs,
  runInInstall,
} from "@exclave/api";
import { digestOf } from "@exclave/core";
import { jobScope } from "../grants.ts";
import { connectAgent } from "../testing/scripted-agent.ts";
import { type ScriptedInstall, scriptedInstall } from "../testing/scripted-install.ts";
import { buildAgent, release } from "../testing/scripted-vendor.ts";
import { assertOnRecord, type TestServer, testServer, until } from "../testing/test-server.ts";

const CRM = `app: crm
inputs:
  - { name: title, required: true }
  - { name: size, type: number, default: 2 }
secrets:
  - { name: session, generate: { bytes: 16 } }
components:
  - { name: database, type: terraform, source: ./database }
  - name: api
    type: command
    source: ./api
    statusEverySeconds: 5
    environment: { URL: "\${{ components.database.outputs.url }}", KEY: "\${{ secrets.session }}" }
  - name: web
    type: command
    source: ./web
    environment: { TITLE: "\${{ inputs.title }}", API: "\${{ components.api.outputs.url }}" }
`;
const SOURCES = { database: "tf", api: "api", web: "web" };
const WITHOUT_WEB = CRM.slice(0, CRM.indexOf("  - name: web"));

interface World {
  readonly server: TestServer;
  readonly install: ScriptedInstall;
}

async function world(t: TestContext): Promise<World> {
  const server = await testServer(t);
  await buildAgent(server);
  const install = await scriptedInstall(server);
  return { server, install };
}

async function create(
  { server }: World,
  inputs: Record<string, unknown> = { title: "Acme" },
): Promise<InstallView> {
  return server.client.call(createInstall, { body: { name: "acme", app: "crm", inputs } as never });
}

function show({ server }: Pick<World, "server">): Promise<InstallView> {
  return server.client.call(getInstall, { params: { install: "acme" as never } });
}

function settled(
  at: Pick<World, "server">,
  phase: InstallView["phase"] = "settled",
): Promise<InstallView> {
  return until(
    () => show(at),
    (view) => view.phase === phase,
    `acme is ${phase}`,
  );
}

async function deployedWorld(t: TestContext): Promise<World> {
  const at = await world(t);
  await release(at.server, CRM, SOURCES, { channel: "stable" });
  await create(at);
  await settled(at);
  return at;
}

describe("a new install", () => {
  test("is set up, synced and deployed in order, without anyone asking", async (t) => {
    const at = await world(t);
    await release(at.server, CRM, SOURCES, { channel: "stable" });

    await create(at);
    const view = await settled(at);

    assert.deepEqual(at.install.done, [
      "sandbox apply",
      "sync",
      "plan database",
      "apply database",
      "apply api",
      "apply web",
    ]);
    assert.deepEqual(
      view.components.map(({ name, state, outputs }) => [name, state, outputs]),
      ["database", "api", "web"].map((name) => [name, "deployed", { url: `http://${name}` }]),
    );
    assert.deepEqual(view.holds, []);
    assert.equal(view.health, "unknown");
    await assertOnRecord(
      at.server,
      "install.created",
      "join.created",
      "job.created",
      "agent.joined",
      "job.ended",
    );
  });

  test("carries everything an apply needs in its manifest", async (t) => {
    const at = await deployedWorld(t);

    const byName = (name: string) =>
      at.install.manifests.find(
        ({ steps, operation }) => operation === "apply" && steps[0]?.component === name,
      );

    const plan = at.install.manifests.find(({ operation }) => operation === "plan");
    assert.deepEqual(byName("database")?.steps[0]?.parameters, {
      plan: digestOf({ plan: plan?.id }),
    });
    assert.deepEqual(byName("web")?.inputs, { title: "Acme", size: 2 });
    assert.equal(byName("web")?.inputsDigest, digestOf({ title: "Acme", size: 2 }));
    assert.deepEqual(byName("api")?.generatedSecrets, [
      { name: "session", bytes: 16, encoding: "hex" },
    ]);
    assert.equal(byName("api")?.statusEveryMs, 5_000);
    assert.equal(byName("web")?.statusEveryMs, 30_000);
    const numbers = at.install.manifests.map(({ issueNo }) => issueNo);
    assert.deepEqual(
      numbers,
      numbers.toSorted((a, b) => a - b),
    );
    assert.equal(new Set(numbers).size, numbers.length);
  });

  test("gets a sync grant for exactly its materials", async (t) => {
    const at = await world(t);
    await release(at.server, CRM, SOURCES, { channel: "stable" });
    at.install.endings.set("sync", {
      outcome: { kind: "failed", code: "invalid", message: "held for a look" },
    });
    await create(at);
    await until(
      () => show(at),
      ({ holds }) => holds.some(({ because }) => /held for a look/.test(because)),
      "the hold",
    );

    const { items } = await at.server.client.call(listJobs);
    const sync = items.find(({ operation }) => operation === "sync");
    const row = await at.server.server.context.store.read.jobs.get(sync?.id ?? "");
    const open = row && {
      ...row,
      state: { status: "running" as const, since: row.createdAt, cancelRequested: false },
    };
    const scope = jobScope({ audience: "acme" }, open, 1);

    assert.ok("access" in scope);
    assert.ok(scope.access.every(({ actions }) => actions.join() === "pull"));
    const repositories = scope.access.map(({ name }) => name).toSorted();
    // The runner came with the sandbox.
    assert.deepEqual(repositories, [
      "apps/crm/api",
      "apps/crm/database",
      "apps/crm/web",
      "exclave/plugins/command",
      "exclave/plugins/terraform",
    ]);
    assert.equal(scope.digests?.length, 5);
    const refused = await at.install.agent()?.grant(sync?.id ?? "");
    assert.match(refused?.refused ?? "", /the job has ended/);
  });

  test("is refused with inputs that are wrong, all of them named", async (t) => {
    const at = await world(t);
    await release(at.server, CRM, SOURCES, { channel: "stable" });

    await assert.rejects(
      create(at, { titel: "x", size: "big" }),
      /no input titel; did you mean `title`\?; the input title is required; the input size must be a number/,
    );
    await assert.rejects(
      at.server.client.call(createInstall, { body: { name: "acme", app: "crn" } as never }),
      /there is no app crn here; there are crm/,
    );
    await assert.rejects(
      at.server.client.call(createInstall, { body: { name: "build", app: "crm" } as never }),
      /cannot be called build/,
    );
    assert.deepEqual((await at.server.client.call(listInstalls)).items, []);
  });

  test("waits for a release its channel does not have yet, and says so", async (t) => {
    const at = await world(t);
    await release(at.server, CRM, SOURCES);

    await create(at);
    const held = await settled(at, "held");
    assert.deepEqual(
      held.holds.map(({ because }) => because),
      ["channel stable of crm has no release yet"],
    );

    await release(at.server, CRM, SOURCES, { channel: "stable" });
    await settled(at);
  });

  test("says why nothing happens while there is no setup agent", async (t) => {
    const server = await testServer(t);
    await buildAgent(server);
    await release(server, CRM, SOURCES, { channel: "stable" });

    const at = { server, install: undefined as never };
    const view = await create(at);

    assert.equal(view.phase, "setting-up");
    assert.deepEqual(view.holds, [
      {
        component: null,
        because: "the setup agent is not connected",
        endsWhen: "the setup agent connects",
      },
    ]);
    await scriptedInstall(server);
    await settled(at);
  });

  test("a setup that failed for good is tried again when somebody asks", async (t) => {
    const at = await world(t);
    await release(at.server, CRM, SOURCES, { channel: "stable" });
    at.install.endings.set("sandbox apply", {
      outcome: { kind: "failed", code: "invalid", message: "no such place" },
    });
    await create(at);
    await until(
      () => show(at),
      ({ holds }) =>
        holds.some(({ because }) => /setup failed \(invalid\): no such place/.test(because)),
      "the hold",
    );

    await at.server.client.call(deployInstall, { params: { install: "acme" as never }, body: {} });

    await settled(at);
  });
});

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
      at.server.client.call(deployInstall, { params, body: { allowDestroy: ["nope" as never] } }),
      /has no component nope/,
    );
    await at.server.client.call(deployInstall, {
      params,
      body: { allowDestroy: ["web" as never] },
    });

    const view = await settled(at);
    assert.deepEqual(at.install.done, ["destroy web"]);
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

    await at.server.client.call(deployInstall, { params: { install: "acme" as never }, body: {} });
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
    await at.server.client.call(deployInstall, { params, body: { channel: "stable" as never } });
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
    assert.equal(manifest?.steps[0]?.artifact?.repository, "apps/crm/api");
  });

  test("are refused where they cannot work, with the reason", async (t) => {
    const at = await deployedWorld(t);
    const ask = (component: string, operation: "logs" | "exec") =>
      at.server.client.call(runInInstall, {
        params: { install: "acme", component } as never,
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
      () => at.server.server.context.store.read.agents.byAudience("acme"),
      (agent) => agent?.revokedAt !== null,
      "revoked",
    );
    await assert.rejects(at.install.reconnect(), /revoked/);
    await assertOnRecord(at.server, "install.destroy_asked", "install.sealed", "agent.revoked");

    const { note } = await at.server.client.call(forgetInstall, { params });
    assert.match(note, /record stays/);
    assert.deepEqual((await at.server.client.call(listInstalls)).items, []);
  });

  test("an install whose setup never ran is gone at once", async (t) => {
    const server = await testServer(t);
    await buildAgent(server);
    await release(server, CRM, SOURCES, { channel: "stable" });
    await create({ server, install: undefined as never });

    await server.client.call(destroyInstall, { params: { install: "acme" as never }, body: {} });

    await settled({ server }, "destroyed");
  });

  test("forgetting by force touches nothing, and says so", async (t) => {
    const at = await deployedWorld(t);
    at.install.done.length = 0;

    const forgotten = await at.server.client.call(forgetInstall, {
      params: { install: "acme" as never },
      query: { force: "true" } as never,
    });

    assert.match(forgotten.note, /whatever ran there still runs/);
    assert.deepEqual(at.install.done, []);
    await assertOnRecord(at.server, "install.forgotten");
  });
});

test("the join secret of a setup is nowhere to be read afterwards", async (t) => {
  const at = await deployedWorld(t);
  const joinString = String(at.install.setup.offered[0]?.steps[0]?.parameters["joinString"]);
  const secret = decodeJoinString(joinString)?.secret;
  assert.ok(secret);

  const { store } = at.server.server.context;
  assert.deepEqual(await store.read.outbox.sent("setup"), []);
  const kept = JSON.stringify([
    await store.read.audit.after(0, 1_000),
    await store.read.jobs.all(),
    await store.read.joins.all(),
  ]);
  assert.ok(!kept.includes(secret) && !kept.includes(joinString));
});
