import assert from "node:assert/strict";
import { createHash, generateKeyPairSync } from "node:crypto";
import { once } from "node:events";
import { describe, test } from "node:test";
import {
  createClient,
  createJoin,
  createRelease,
  getJob,
  getJobLog,
  LINK_PATH,
  LINK_PROTOCOL,
  listAgents,
  listJobs,
  listPlugins,
  PUBLISH_JOB,
} from "@exclave/api";
import { WebSocket } from "ws";
import { connectAgent, join, joinVendorAgent, newMemory } from "../testing/scripted-agent.ts";
import { buildAgent, builtBy, PLUGINS, release, uploadSource } from "../testing/scripted-vendor.ts";
import { assertOnRecord, testServer, until } from "../testing/test-server.ts";

const ONE = "app: crm\ncomponents:\n  - { name: api, type: command, source: ./api }\n";

describe("joining and connecting", () => {
  test("a join string makes one agent, once", async (t) => {
    const server = await testServer(t);
    const { joinString } = await server.client.call(createJoin, { body: { kind: "build" } });

    const identity = await join(joinString);

    assert.equal(identity.audience, "build");
    await assert.rejects(join(joinString), /used before/);
    await assertOnRecord(server, "join.created", "agent.joined");
  });

  test("a join whose answer was lost is answered again to the same key, and to no other", async (t) => {
    const server = await testServer(t);
    const { joinString } = await server.client.call(createJoin, { body: { kind: "build" } });
    const keys = generateKeyPairSync("ed25519");

    const first = await join(joinString, keys);
    const again = await join(joinString, keys);

    assert.deepEqual(
      [again.agent, again.keyGeneration],
      [first.agent, first.keyGeneration],
      "the same agent, and its keys are not replaced",
    );
    await assert.rejects(join(joinString), /used before/);
  });

  test("an agent that proves its key is welcome, another is not (L-1.1)", async (t) => {
    const server = await testServer(t);
    const identity = await joinVendorAgent(server, "build");
    const other = await joinVendorAgent(server, "setup");

    await connectAgent(identity);
    await assert.rejects(
      connectAgent({ ...other, privateKey: identity.privateKey }),
      /unauthenticated: no agent with that id and key/,
    );

    const { items } = await server.client.call(listAgents);
    const status = Object.fromEntries(items.map((agent) => [agent.kind, agent.status]));
    assert.deepEqual(status, { build: "online", setup: "offline" });
  });

  test("a key from before a second join is refused (L-1.3)", async (t) => {
    const server = await testServer(t);
    const first = await joinVendorAgent(server, "build");
    const second = await joinVendorAgent(server, "build");

    assert.equal(second.agent, first.agent);
    assert.equal(second.keyGeneration, 2);
    await assert.rejects(connectAgent(first), /unauthenticated/);
    await assert.rejects(
      connectAgent({ ...first, privateKey: second.privateKey }),
      /superseded: this key is of generation 1/,
    );
    await connectAgent(second);
  });

  test("a second connection of an agent ends the first (L-1.4)", async (t) => {
    const server = await testServer(t);
    const identity = await joinVendorAgent(server, "build");
    const first = await connectAgent(identity);

    const second = await connectAgent(identity);
    await first.closed;

    await second.say({ type: "alarm", at: 1, code: "test", because: "still here" });
    assert.equal(first.frames.at(-1)?.type, "goaway");
  });

  test("whoever never says hello is not kept", async (t) => {
    const server = await testServer(t, { pingMs: 50 });
    const socket = new WebSocket(server.url.replace("http", "ws") + LINK_PATH, LINK_PROTOCOL);

    const [code] = await once(socket, "close");

    assert.equal(code, 1008);
  });

  test("frames before a hello, and nonsense, end the connection (L-1.2)", async (t) => {
    const server = await testServer(t);
    const agent = await connectAgent(await joinVendorAgent(server, "build"));

    agent.send({ type: "nonsense" } as never);
    await agent.closed;

    const last = agent.frames.at(-1);
    assert.ok(last?.type === "goaway" && last.code === "protocol");
  });
});

describe("events", () => {
  test("an acknowledged event is there after a restart, and a duplicate changes nothing (L-2.1)", async (t) => {
    const server = await testServer(t);
    const memory = newMemory();
    const identity = await joinVendorAgent(server, "build");
    const agent = await connectAgent(identity, {}, memory);
    await agent.say({ type: "alarm", at: 1, code: "one", because: "first" });

    const after = await server.restart();
    memory.upHead = 1;
    const again = await connectAgent(identity, {}, memory, after.url);
    const acked = again.next((frame) => frame.type === "ack");
    again.send({
      type: "event",
      seq: 1,
      body: { type: "alarm", at: 1, code: "one", because: "x" },
    });
    assert.deepEqual(await acked, { type: "ack", seq: 1 });

    const records = await after.server.context.store.read.audit.after(0, 100);
    assert.equal(records.filter(({ action }) => action === "agent.alarm").length, 1);
  });

  test("a gap is asked for again (L-2.2)", async (t) => {
    const server = await testServer(t);
    const agent = await connectAgent(await joinVendorAgent(server, "build"));

    const asked = agent.next((frame) => frame.type === "resend");
    agent.send({ type: "event", seq: 3, body: { type: "alarm", at: 1, code: "x", because: "x" } });

    assert.deepEqual(await asked, { type: "resend", from: 1 });
  });

  test("a lost journal is seen, and what it held is ended as unknown (L-2.4)", async (t) => {
    const server = await testServer(t);
    const agent = await buildAgent(server, async () => undefined);
    const sources = { api: await uploadSource(server, "source") };
    await server.client.call(createRelease, { body: { config: ONE, sources } });
    const jobs = () => server.client.call(listJobs);
    await until(jobs, ({ items }) => items[0]?.state === "running", "the build runs");
    await agent.disconnect();

    const fresh = await connectAgent(agent.identity, {}, newMemory());
    await fresh.say({ type: "inventory", at: 1, jobs: [] });

    const { items } = await jobs();
    assert.deepEqual(
      items.map(({ state, failure }) => [state, failure?.code]),
      [["unknown", "lost"]],
    );
    await assertOnRecord(server, "agent.journal_reset", "agent.inventory");
  });
});

describe("logs", () => {
  test("bytes come once each, whatever is sent twice or too early, and the end is checked (L-4.1)", async (t) => {
    const server = await testServer(t);
    const agent = await buildAgent(server, async (manifest) => {
      const { id, attempt } = manifest;
      const acks = (upTo: number) =>
        agent.next((frame) => frame.type === "log_ack" && frame.upTo === upTo);
      let acked = acks(6);
      agent.sendLog(id, attempt, 0, "hello ");
      await acked;
      acked = acks(6);
      agent.sendLog(id, attempt, 9, "later");
      await acked;
      acked = acks(11);
      agent.sendLog(id, attempt, 3, "lo world");
      await acked;
      const text = "hello world";
      const logSha256 = createHash("sha256").update(text).digest("hex");
      const repository = String(manifest.steps[0]?.parameters["repository"]);
      const artifact = {
        type: "artifact" as const,
        name: "api",
        repository,
        digest: manifest.inputsDigest,
      };
      return { logBytes: 11, logSha256, artifacts: [artifact] };
    });

    await release(server, ONE, { api: "source" });

    const { items } = await server.client.call(listJobs);
    const build = items.find(({ operation }) => operation === "build");
    const job = await until(
      () => server.client.call(getJob, { params: { job: build?.id ?? "" } }),
      ({ logComplete }) => logComplete,
      "the log is complete",
    );
    let text = "";
    for await (const chunk of server.client.bytes(getJobLog, {
      params: { job: job.id },
      query: { follow: "true" },
    })) {
      text += Buffer.from(chunk).toString();
    }
    assert.equal(text, "hello world");
  });

  test("what is over the server's limit is left out, and both the log and the record say so (L-4.3)", async (t) => {
    const server = await testServer(t, { logBytesMax: 10 });
    const text = "0123456789 and more";
    await buildAgent(server, async (manifest) => ({ ...builtBy(manifest), log: text }));
    await release(server, ONE, { api: "source" });
    const { items } = await server.client.call(listJobs);
    const params = { job: items.find(({ operation }) => operation === "build")?.id ?? "" };
    await until(
      () => server.client.call(getJob, { params }),
      ({ logComplete }) => logComplete,
      "the log is over",
    );

    for (const follow of ["true", "false"]) {
      let read = "";
      for await (const chunk of server.client.bytes(getJobLog, { params, query: { follow } })) {
        read += Buffer.from(chunk).toString();
      }

      const note = "[9 bytes of log are over the server's limit and were left out]\n";
      assert.equal(read, `0123456789${note}`);
    }
    await assertOnRecord(server, "job.ended", "job.log_cut");
  });

  test("a log of somebody else's job is not taken (L-4.4)", async (t) => {
    const server = await testServer(t);
    const build = await buildAgent(server, async () => undefined);
    const setup = await connectAgent(await joinVendorAgent(server, "setup"));
    void release(server, ONE, { api: "source" }).catch(() => undefined);
    await until(
      async () => build.offered.length,
      (count) => count === 1,
      "the offer",
    );
    const job = build.offered[0]?.id ?? "";

    setup.sendLog(job, 1, 0, "forged");
    await setup.say({ type: "alarm", at: 1, code: "x", because: "after the log" });

    assert.equal(await server.server.context.logs.sizeBytes(job, 1), 0);
  });
});

describe("grants", () => {
  test("the build agent may publish the images it names, and nothing outside of exclave/", async (t) => {
    const server = await testServer(t);
    const agent = await connectAgent(await joinVendorAgent(server, "build"));

    const { grant } = await agent.grant(PUBLISH_JOB.job, 1, ["exclave/plugins/brand-new"]);

    assert.ok(grant);
    const { registryUrl, token } = grant;
    const digest = `sha256:${createHash("sha256").update("layer").digest("hex")}`;
    const push = (repository: string) =>
      fetch(`${registryUrl}/v2/${repository}/blobs/uploads/?digest=${digest}`, {
        method: "POST",
        body: "layer",
        headers: {
          authorization: `Bearer ${token}`,
          "content-type": "application/octet-stream",
        },
      });
    assert.equal((await push("exclave/plugins/brand-new")).status, 201);
    assert.equal((await push("exclave/plugins/unnamed")).status, 401);
    assert.equal((await push("apps/crm/api")).status, 401);
    for (const foreign of ["apps/crm/api", "exclave-not/plugins/x", "exclave/*", "exclave"]) {
      const refused = await agent.grant(PUBLISH_JOB.job, 1, ["exclave/runner", foreign]);
      assert.equal(refused.refused, `images are not published to ${foreign}`);
    }
    assert.match((await agent.grant(PUBLISH_JOB.job)).refused ?? "", /not said which images/);
    await assertOnRecord(server, "grant.given", "grant.refused");
  });

  test("another agent may not publish, and gets nothing for a job that is not its own", async (t) => {
    const server = await testServer(t);
    const build = await buildAgent(server, async () => undefined);
    const setup = await connectAgent(await joinVendorAgent(server, "setup"));
    void release(server, ONE, { api: "source" }).catch(() => undefined);
    await until(
      async () => build.offered.length,
      (count) => count === 1,
      "the offer",
    );
    const job = build.offered[0]?.id ?? "";

    assert.match((await setup.grant(PUBLISH_JOB.job)).refused ?? "", /only the build agent/);
    assert.match((await setup.grant(job)).refused ?? "", /not a job of this agent/);
    assert.match((await build.grant(job, 2)).refused ?? "", /not a job of this agent/);
    const { grant } = await build.grant(job);
    const source = await fetch(grant?.sourceUrl ?? "", {
      headers: { authorization: `Bearer ${grant?.sourceToken}` },
    });
    assert.equal(await source.text(), "source");
    const wrong = await fetch(grant?.sourceUrl ?? "", {
      headers: { authorization: `Bearer ${grant?.credential}` },
    });
    assert.equal(wrong.status, 401);
    await assertOnRecord(server, "grant.refused", "grant.refused", "grant.refused", "grant.given");
  });
});

test("plugins are known once the build agent has published them", async (t) => {
  const server = await testServer(t);
  await buildAgent(server);

  const viewer = createClient({ url: server.url, token: server.token });
  const { items } = await viewer.call(listPlugins);

  const types = PLUGINS.map(({ type }) => type).toSorted();
  assert.deepEqual(items.map(({ type }) => type).toSorted(), types);
});
