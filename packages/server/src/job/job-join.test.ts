import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, type TestContext, test } from "node:test";
import { decodeJoinString, forgetInstall, listJobs } from "@exclave/api";
import {
  CRM,
  create,
  deployedWorld,
  SOURCES,
  type World,
  world,
} from "../testing/deployed-world.ts";
import { connectAgent, joinVendorAgent } from "../testing/scripted-agent.ts";
import { release } from "../testing/scripted-vendor.ts";
import { assertOnRecord, until } from "../testing/test-server.ts";

describe("the join string of a setup", () => {
  test("lies nowhere in the server's directory: not in the database, its log or a job's", async (t) => {
    const at = await deployedWorld(t);
    const [joinString = ""] = at.install.joinStrings;
    const secret = decodeJoinString(joinString)?.secret;
    assert.ok(secret);

    // Before the server closes and tidies its write-ahead log, and after.
    for (const when of ["while it runs", "after a restart"]) {
      if (when === "after a restart") await at.server.restart();
      for (const { path, bytes } of await filesBelow(at.server.data)) {
        for (const value of [secret, joinString.slice("exclave-join-v1.".length)]) {
          assert.ok(!bytes.includes(value), `${path} ${when}`);
        }
      }
    }
    const manifests = JSON.stringify(at.install.setup.offered);
    assert.ok(!manifests.includes("exclave-join"));
  });

  test("is given once for an attempt, to the agent that holds the setup, for its install", async (t) => {
    const { at, job } = await settingUp(t);
    const build = await connectAgent(await joinVendorAgent(at.server, "build"), {});

    assert.match((await build.joinString(job)).refused ?? "", /not a job of this agent/);
    assert.match((await at.install.setup.joinString(job, 2)).refused ?? "", /not a job of this/);
    const again = await at.install.setup.joinString(job);

    assert.match(again.refused ?? "", /given already/);
    assert.equal(again.joinString, undefined);
    assert.equal(at.install.joinStrings.length, 1);
    const given = decodeJoinString(at.install.joinStrings[0] ?? "");
    const install = await at.server.server.context.store.read.installs.byName("acme");
    assert.deepEqual(
      [given?.kind, given?.audience, given?.install, given?.app],
      ["install", install?.id, "acme", install?.app],
    );
    await assertOnRecord(at.server, "join.created", "join.refused", "join.refused");
  });

  test("is not given for a job that is no setup, or whose install is forgotten", async (t) => {
    const at = await world(t);
    await release(at.server, CRM, SOURCES, { channel: "stable" });
    const [build] = (await at.server.client.call(listJobs, { query: { install: "build" } })).items;
    const agent = await connectAgent(await joinVendorAgent(at.server, "build"), {});
    assert.match((await agent.joinString(build?.id ?? "")).refused ?? "", /no setup/);

    const { at: other, job } = await settingUp(t);
    const params = { install: "acme" as never };
    await other.server.client.call(forgetInstall, { params, query: { force: "true" } });

    assert.match((await other.install.setup.joinString(job)).refused ?? "", /has ended/);
  });
});

/** An install whose setup runs and has its join string. */
async function settingUp(t: TestContext): Promise<{ at: World; job: string }> {
  const at = await world(t);
  await release(at.server, CRM, SOURCES, { channel: "stable" });
  at.install.leaveRunning.add("sandbox apply");
  await create(at);
  await until(
    async () => at.install.joinStrings,
    ({ length }) => length === 1,
    "the setup has its join string",
  );
  return { at, job: at.install.setup.offered[0]?.id ?? "" };
}

async function filesBelow(directory: string) {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  return Promise.all(
    files.map(async ({ parentPath, name }) => {
      const path = join(parentPath, name);
      return { path, bytes: await readFile(path) };
    }),
  );
}
