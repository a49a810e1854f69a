// A server restored from an older backup, with agents that know more than it does.

import assert from "node:assert/strict";
import { copyFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import {
  deployInstall,
  getInstall,
  type InstallView,
  listChannels,
  setChannel,
} from "@exclave/api";
import { CRM, deployedWorld, SOURCES, type World } from "../testing/deployed-world.ts";
import { buildAgent, release } from "../testing/scripted-vendor.ts";
import { assertOnRecord, type TestServer, until } from "../testing/test-server.ts";

const WEB_2 = { ...SOURCES, web: "web 2" };
const params = { install: "acme" as never };

/** Stops the server, does something to its database, and starts it again; the agent comes back. */
async function restart(at: World, change: (file: string) => Promise<void>): Promise<World> {
  await at.install.agent()?.disconnect();
  const server = await at.server.restart(() => change(join(at.server.data, "exclave.db")));
  await buildAgent(server);
  await at.install.reconnect(server.url);
  return { ...at, server };
}

function phase(server: TestServer, isSo: (view: InstallView) => boolean): Promise<InstallView> {
  return until(() => server.client.call(getInstall, { params }), isSo, "acme is so");
}

const isSettledAt = (version: string) => (view: InstallView) =>
  view.phase === "settled" && view.version === version;

describe("a server restored from an older backup", () => {
  test("numbers above what its agent has seen, and moves its channel to what the agent applied", async (t) => {
    let at = await deployedWorld(t);
    const second = await release(at.server, CRM, WEB_2);
    at = await restart(at, (file) => copyFile(file, `${file}.backup`));
    await at.server.client.call(setChannel, {
      params: { app: "crm", channel: "stable" },
      body: { release: second.id },
    });
    await phase(at.server, isSettledAt("2"));
    at.install.done.length = 0;

    at = await restart(at, (file) => copyFile(`${file}.backup`, file));

    const view = await phase(at.server, isSettledAt("2"));
    assert.ok(view.components.every(({ state }) => state === "deployed"));
    assert.deepEqual(at.install.done, ["sync", "apply web"]);
    const { items } = await at.server.client.call(listChannels);
    assert.equal(items[0]?.release, second.id);
    await assertOnRecord(at.server, "agent.issue_numbers_caught_up", "install.caught_up");
  });

  test("holds with the command when it has forgotten the release, and goes on after it", async (t) => {
    let at = await deployedWorld(t);
    at = await restart(at, (file) => copyFile(file, `${file}.backup`));
    await release(at.server, CRM, WEB_2, { channel: "stable" });
    await phase(at.server, isSettledAt("2"));
    at = await restart(at, (file) => copyFile(`${file}.backup`, file));
    at.install.done.length = 0;

    // Until the agent has told what there is, it is held for that.
    const held = await phase(at.server, ({ holds }) =>
      /restored from an older/.test(holds[0]?.because ?? ""),
    );
    assert.equal(held.phase, "held");
    assert.match(held.holds[0]?.because ?? "", /runs web from release r/);
    assert.match(held.holds[0]?.endsWhen ?? "", /`exclave release --channel stable`/);
    assert.deepEqual(at.install.done, []);

    await release(at.server, CRM, { ...SOURCES, web: "web 3" }, { channel: "stable" });
    await phase(at.server, isSettledAt("2"));
    assert.deepEqual(at.install.done, ["sync", "apply web"]);
  });

  test("goes on with an older release once somebody says so by name", async (t) => {
    let at = await deployedWorld(t);
    at = await restart(at, (file) => copyFile(file, `${file}.backup`));
    await release(at.server, CRM, WEB_2, { channel: "stable" });
    await phase(at.server, isSettledAt("2"));
    at = await restart(at, (file) => copyFile(`${file}.backup`, file));
    await phase(at.server, ({ phase }) => phase === "held");

    await at.server.client.call(deployInstall, { params, body: { release: "1" } });

    const view = await phase(at.server, isSettledAt("1"));
    assert.ok(view.components.every(({ state }) => state === "deployed"));
  });
});
