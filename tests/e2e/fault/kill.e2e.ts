// kill -9 of anything in the middle of a deploy. Afterwards: nothing lost, nothing launched twice
// (counted by a line each start leaves on disk), the audit chain whole.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { createWorld, repeated, until, untilHealthy, type World } from "../testing/harness.ts";
import { createShopWorld, trail, writeShop } from "../testing/shop-app.ts";

test("kill -9 in the middle of a deploy loses nothing and launches nothing twice", async (t) => {
  const world = await createShopWorld(t);

  await t.test("the server", async () => {
    await duringApply(world, "red", () => assert.ok(killServer(world) > 0));
  });

  await t.test(
    "the install agent, while a job runs: the job goes on, the agent finds it again, the result arrives once",
    async () => {
      const started = await duringApply(world, "orange", () => assert.equal(killAgent(world), 1));
      assert.equal(started.length, 1, "the job that ran was not started again");
    },
  );

  await t.test("server and agent at once", async () => {
    await duringApply(world, "yellow", () => {
      assert.ok(killServer(world) > 0);
      assert.equal(killAgent(world), 1);
    });
  });

  await t.test(
    "the job: its failure is on record, and a new job brings the install to healthy",
    async () => {
      await duringApply(world, "violet", () => assert.ok(world.kill("apply.sh") > 0));
      const failed = (await world.jobs("--install", "acme")).filter(
        ({ state }) => state === "failed",
      );
      assert.ok(failed.length > 0);
    },
  );

  await t.test(
    "a server that is off while jobs end hears of every end when it is back",
    async () => {
      writeShop(world, { colour: "white", applySeconds: 4 });
      const before = trail(world).length;
      await world.exclave("release", "shop", "--channel", "stable", "--wait");
      await until("the api is being applied", () =>
        trail(world)
          .slice(before)
          .some((line) => line.startsWith("api apply")),
      );
      const hold = holdDown(world);
      await until("the job has ended by itself", () =>
        trail(world)
          .slice(before)
          .some((line) => line.startsWith("api done")),
      );
      hold.release();
      await untilColour(world, "white");
      assert.deepEqual(repeated(trail(world)), []);
      assert.equal(
        trail(world)
          .slice(before)
          .filter((line) => line.startsWith("api apply")).length,
        1,
      );
    },
  );

  await t.test("the record is whole and every log complete", async () => {
    await world.exclave("audit", "verify");
    const jobs = await world.jobs("--install", "acme");
    assert.deepEqual(
      jobs
        .filter(({ state, logComplete }) => state === "succeeded" && !logComplete)
        .map(({ id }) => id),
      [],
    );
    assert.deepEqual(
      jobs.filter(({ endedAt }) => endedAt === null).map(({ id, state }) => `${id} ${state}`),
      [],
    );
  });
});

/** Releases a changed api whose apply takes a while, strikes in the middle, and waits for healthy. */
async function duringApply(world: World, colour: string, strike: () => void): Promise<string[]> {
  const before = trail(world).length;
  writeShop(world, { colour, applySeconds: 3 });
  await world.exclave("release", "shop", "--channel", "stable", "--wait");
  await until(
    "the api is being applied",
    () =>
      trail(world)
        .slice(before)
        .some((line) => line.startsWith("api apply")),
    { everyMs: 50 },
  );
  strike();
  await untilColour(world, colour);
  assert.deepEqual(repeated(trail(world)), []);
  await world.exclave("audit", "verify");
  return trail(world)
    .slice(before)
    .filter((line) => line.startsWith("api apply"));
}

async function untilColour(world: World, colour: string): Promise<void> {
  await until(`the page is ${colour} and healthy`, async () => {
    const install = await world.install("acme");
    const url = install.components.find(({ name }) => name === "web")?.outputs["url"];
    const page = (await (await fetch(String(url))).json()) as { colour: string };
    return page.colour === colour && install.health === "healthy";
  });
  await untilHealthy(world, "acme");
}

function killServer(world: World): number {
  return world.kill("server/src/main.ts", "--data");
}

function killAgent(world: World): number {
  return world.kill("agent.mjs", "install", "installs/acme");
}

/** Kills the server again and again, as fast as it is restarted, until released. */
function holdDown(world: World): { release(): void } {
  const timer = setInterval(() => killServer(world), 100);
  killServer(world);
  return { release: () => clearInterval(timer) };
}

test("a second instance on the same data is refused with one clear sentence", async (t) => {
  const world = await createWorld(t);
  await world.up();

  const second = await world.attempt("up");

  assert.notEqual(second.code, 0);
  assert.match(second.stderr, /is up already/);
  const up = JSON.parse(readFileSync(join(world.home, "run/up.json"), "utf8")) as { url: string };
  assert.ok((await fetch(`${up.url}/healthz`)).ok, "the first one goes on");
});
