// Health, its age and repairs through the whole server: link, store, planner, loop, view.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { deployInstall, type InstallView, timeOf } from "@exclave/api";
import { SOURCES, show } from "../testing/deployed-world.ts";
import { until } from "../testing/test-server.ts";
import { deployTimed, type TimedWorld, timedWorld } from "../testing/virtual-clock.ts";

const MINUTE_MS = 60_000;
const API = `app: crm
inputs: [{ name: title, required: true }]
components:
  - { name: api, type: command, source: ./api, statusEverySeconds: 10 }
`;

async function say(at: TimedWorld, health: "healthy" | "missing", because = "no process") {
  await at.install.agent()?.say({ type: "health", at: 1, component: "api", health, because });
}

function looked({ install }: TimedWorld, agoMs: number): void {
  install.agent()?.send({ type: "pong", id: 1, looks: [{ component: "api", agoMs }] });
}

function applies({ install }: TimedWorld): number {
  return install.done.filter((done) => done === "apply api").length;
}

async function healthyWorld(t: Parameters<typeof timedWorld>[0]): Promise<TimedWorld> {
  const at = await timedWorld(t);
  await deployTimed(at, API, SOURCES);
  await say(at, "healthy");
  assert.equal((await show(at)).health, "healthy");
  return at;
}

describe("the health of an install", () => {
  test("turns unknown, with since when, once its agent looks no more", async (t) => {
    const at = await healthyWorld(t);
    const saidAt = at.now();

    const view = await at.pass(2 * MINUTE_MS);

    assert.equal(view.health, "unknown");
    assert.equal(view.components[0]?.healthSince, timeOf(saidAt));
    assert.match(view.components[0]?.healthBecause ?? "", /nobody has looked at it since/);
  });

  test("that nobody looks at is looked at again: a status job brings the agent its schedule", async (t) => {
    const at = await healthyWorld(t);
    at.install.done.length = 0;
    const isStatus = (done: string) => done === "status api";

    await at.pass(30_000);
    assert.equal(at.install.done.filter(isStatus).length, 0);
    await at.pass(2 * MINUTE_MS);
    await until(
      async () => at.install.done.filter(isStatus).length,
      (count) => count === 1,
      "a status is looked up",
    );
    const manifest = at.install.manifests.at(-1);
    assert.equal(manifest?.statusEveryMs, 10_000);
    assert.match(manifest?.because ?? "", /nobody looks at api: its agent lost the schedule/);
    await at.pass(30_000);
    assert.equal(at.install.done.filter(isStatus).length, 1, "not again at once");
    await at.pass(2 * MINUTE_MS);
    await until(
      async () => at.install.done.filter(isStatus).length,
      (count) => count === 2,
      "a status is looked up again",
    );
  });

  test("stays what it is while the agent says that it looks, without a write", async (t) => {
    const at = await healthyWorld(t);
    const { store } = at.server.server.context;
    const [before] = await store.read.components.all();

    let view: InstallView | undefined;
    for (let minute = 0; minute < 10; minute++) {
      await at.pass(MINUTE_MS);
      looked(at, 1_000);
      view = await until(
        () => show(at),
        ({ components }) => components[0]?.healthAt === timeOf(at.now() - 1_000),
        "the look is known",
      );
    }

    assert.equal(view?.health, "healthy");
    assert.deepEqual(await store.read.components.all(), [before]);
  });

  test("is unknown, and the install held, while its agent is offline", async (t) => {
    const at = await healthyWorld(t);

    await at.install.agent()?.disconnect();
    const view = await until(
      () => show(at),
      ({ agent }) => agent.status === "offline",
      "offline",
    );

    assert.equal(view.health, "unknown");
    assert.equal(view.phase, "held");
    assert.match(view.holds[0]?.because ?? "", /the agent is offline since/);
    await at.install.reconnect();
    assert.equal((await at.pass(0)).health, "healthy");
  });
});

test("a component that is well is applied again when somebody asks for it by name", async (t) => {
  const at = await healthyWorld(t);
  const params = { install: "acme" as never };

  await at.server.client.call(deployInstall, { params, body: { components: ["api"] } });
  await at.pass(0);

  assert.equal(applies(at), 2);
  assert.match(at.install.manifests.at(-1)?.because ?? "", /asked for it/);
});

describe("a component that went missing", () => {
  test("is applied again by itself, with a because", async (t) => {
    const at = await healthyWorld(t);
    await say(at, "missing");

    assert.equal((await at.pass(19_000)).phase, "settled");
    assert.equal(applies(at), 1);
    await at.pass(2_000);

    assert.equal(applies(at), 2);
    assert.match(at.install.manifests.at(-1)?.because ?? "", /it is missing since .*repair 1 of 4/);
  });

  test("is held after the last repair, until the command that is named there", async (t) => {
    const at = await healthyWorld(t);
    let view: InstallView | undefined;
    for (let round = 0; round < 12; round++) {
      await say(at, "missing");
      view = await at.pass(10 * MINUTE_MS);
    }
    await say(at, "missing", "still no process");
    view = await at.pass(MINUTE_MS);

    assert.equal(applies(at), 5);
    assert.equal(view.phase, "held");
    assert.match(view.holds[0]?.because ?? "", /4 repairs did not help/);
    assert.match(view.holds[0]?.endsWhen ?? "", /`exclave install deploy acme --component api`/);

    const params = { install: "acme" as never };
    await at.server.client.call(deployInstall, { params, body: { components: ["api"] } });
    await at.pass(0);
    assert.equal(applies(at), 6);
    await assert.rejects(
      at.server.client.call(deployInstall, { params, body: { components: ["nope"] } }),
      /has no component nope/,
    );
  });
});
