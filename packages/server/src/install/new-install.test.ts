import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { createInstall, deployInstall, listInstalls, listJobs } from "@exclave/api";
import { digestOf, limitsFor, PluginDescriptor } from "@exclave/core";
import { jobScope } from "../job/grants.ts";
import {
  CRM,
  create,
  deployedWorld,
  SOURCES,
  settled,
  show,
  world,
} from "../testing/deployed-world.ts";
import { scriptedInstall } from "../testing/scripted-install.ts";
import { buildAgent, release } from "../testing/scripted-vendor.ts";
import { assertOnRecord, testServer, until } from "../testing/test-server.ts";

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
      "job.created",
      "join.created",
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
    for (const { operation, limits } of at.install.manifests) {
      assert.deepEqual(limits, limitsFor(operation), `${operation} has the default limits`);
    }
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
    const scope = jobScope({ audience: row?.audience ?? "build" }, open, 1);

    assert.ok("access" in scope);
    assert.ok(scope.access.every(({ actions }) => actions.join() === "pull"));
    const { appId } = await show(at);
    const repositories = scope.access.map(({ name }) => name).toSorted();
    // The runner came with the sandbox.
    assert.deepEqual(repositories, [
      `apps/${appId}/api`,
      `apps/${appId}/database`,
      `apps/${appId}/web`,
      "exclave/plugins/command",
      "exclave/plugins/terraform",
      `releases/${appId}`,
    ]);
    const [manifest] = at.install.manifests;
    const named = manifest?.steps[0]?.materials.map(({ digest }) => digest);
    const digests = scope.reads?.map(({ digest }) => digest);
    assert.deepEqual(digests?.toSorted(), named?.toSorted());
    assert.equal(digests?.length, 6);
    const refused = await at.install.agent()?.grant(sync?.id ?? "");
    assert.match(refused?.refused ?? "", /the job has ended/);
  });

  test("names the signed release with everything that runs, and syncs it last", async (t) => {
    const at = await world(t);
    const made = await release(at.server, CRM, SOURCES, { channel: "stable" });

    await create(at);
    await settled(at);

    const index = { repository: `releases/${made.appId}`, digest: made.digest };
    for (const { operation, steps } of at.install.manifests) {
      assert.deepEqual(steps[0]?.releases, [index], operation);
    }
    const sync = at.install.manifests.find(({ operation }) => operation === "sync");
    assert.deepEqual(sync?.steps[0]?.materials.at(-1), { name: "release", ...index });
    await assertOnRecord(at.server, "release.ready", "install.synced");
  });

  test("a sync whose signature did not hold is on record, and nothing of it counts", async (t) => {
    const at = await world(t);
    await release(at.server, CRM, SOURCES, { channel: "stable" });
    const outcome = { kind: "failed", code: "signature", message: "nobody has signed it" } as const;
    at.install.endings.set("sync", { outcome });

    await create(at);
    const held = await settled(at, "held");

    assert.ok(held.holds.some(({ because }) => /signature.*nobody has signed it/.test(because)));
    assert.deepEqual(at.install.done, ["sandbox apply", "sync"]);
    const { audit, installs } = at.server.server.context.store.read;
    const records = await audit.after(0, 10_000);
    const ended = records.filter(({ action }) => action === "job.ended").at(-1);
    assert.deepEqual(ended?.details["failure"], { code: "signature", message: outcome.message });
    const synced = (await installs.byName("acme"))?.synced ?? [];
    assert.deepEqual(
      synced.map(({ repository }) => repository),
      ["exclave/runner"],
    );
    assert.ok(!records.some(({ action }) => action === "install.synced"));
  });

  test("hands the sandbox its own configuration as it is, if the sandbox knows it", async (t) => {
    const at = await world(t);
    await release(at.server, CRM, SOURCES, { channel: "stable" });
    const { store } = at.server.server.context;
    const image = await store.read.images.get("sandbox/local");
    assert.ok(image?.descriptor === null);
    const properties = { directory: { type: "string" } };
    const configSchema = { type: "object", properties, additionalProperties: false };
    const descriptor = PluginDescriptor.parse({
      version: 1,
      type: "local",
      operations: {},
      outputs: "open",
      configSchema,
    });
    await store.transaction((tx) => tx.images.put({ ...image, descriptor }));
    const wish = { name: "acme", app: "crm", inputs: { title: "Acme" } };

    const mistyped = { ...wish, sandboxConfig: { directroy: "/srv/acme" } };
    await assert.rejects(
      at.server.client.call(createInstall, { body: mistyped }),
      /sandboxConfig.*directroy/,
    );
    const sandboxConfig = { directory: "/srv/acme" };
    await at.server.client.call(createInstall, { body: { ...wish, sandboxConfig } });
    const view = await settled(at);

    assert.deepEqual(view.sandboxConfig, sandboxConfig);
    const [setup] = at.install.setup.offered;
    assert.deepEqual(setup?.steps[0]?.config, sandboxConfig);
    assert.deepEqual(setup?.install, { id: view.id, name: "acme" });
  });

  test("is refused with inputs that are wrong, all of them named", async (t) => {
    const at = await world(t);
    await release(at.server, CRM, SOURCES, { channel: "stable" });

    await assert.rejects(
      create(at, { titel: "x", size: "big" }),
      /no input titel; did you mean `title`\?; the input title is required; the input size must be a number/,
    );
    await assert.rejects(
      at.server.client.call(createInstall, { body: { name: "acme", app: "crn" } }),
      /there is no app crn here; there are crm/,
    );
    await assert.rejects(
      at.server.client.call(createInstall, { body: { name: "build", app: "crm" } }),
      /cannot be called build/,
    );
    assert.deepEqual((await at.server.client.call(listInstalls)).items, []);
  });

  test("is refused, or held, when a secret is required that nobody can set yet", async (t) => {
    const at = await world(t);
    const demanding = CRM.replace("secrets:", "secrets:\n  - { name: license, required: true }");
    await release(at.server, demanding, SOURCES, { channel: "stable" });

    await assert.rejects(
      create(at),
      /the secret license is required, and setting secrets is not built yet; use `generate`/,
    );
    await release(at.server, CRM, SOURCES, { channel: "stable" });
    await create(at);
    await settled(at);
    await release(at.server, demanding, SOURCES, { channel: "stable" });
    const held = await settled(at, "held");

    assert.match(held.holds[0]?.because ?? "", /the secret license is required/);
    assert.equal(held.components.length, 3);
  });

  test("waits for a release its channel does not have yet, and says so", async (t) => {
    const at = await world(t);
    await release(at.server, CRM, SOURCES);

    await create(at);
    const held = await until(
      () => show(at),
      ({ holds }) => holds.length > 0,
      "acme is held",
    );
    assert.deepEqual(
      held.holds.map(({ because }) => because),
      ["channel stable of crm has no release yet"],
    );
    assert.deepEqual(at.install.done, [], "a sandbox is set up from a release, or not at all");

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
        command: null,
      },
    ]);
    await scriptedInstall(server);
    await settled(at);
  });

  test("a setup that failed for good is retried when somebody asks", async (t) => {
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

    await at.server.client.call(deployInstall, { params: { install: "acme" }, body: {} });

    await settled(at);
  });
});
