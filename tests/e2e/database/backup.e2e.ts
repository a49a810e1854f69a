// A server is backed up while it works, goes on, is lost, and comes back from the backup: its install stays up, and
// what was deployed since is learned from the install's agent.

import assert from "node:assert/strict";
import { existsSync, renameSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { InstallView } from "@exclave/api";
import { until, untilHealthy } from "../testing/harness.ts";
import { createShopWorld, trail, writeShop } from "../testing/shop-app.ts";

test("a server that was lost comes back from a backup made while it ran", async (t) => {
  const world = await createShopWorld(t);
  const data = join(world.home, "server");
  const copy = join(world.home, "copy");

  await world.exclave("server", "backup", copy);
  assert.ok(existsSync(join(copy, "exclave.db")));
  const twice = await world.attempt("server", "backup", copy);
  assert.equal(twice.code, 1);
  assert.match(twice.stderr, /is there already/);

  const first = trail(world).length;
  const green = writeShop(world, { colour: "green" });
  await world.exclave("release", green, "--channel", "stable", "--wait");
  await until("the update is deployed", async () => trail(world).length > first);
  await untilHealthy(world, "acme");
  const before = trail(world);
  await world.down();

  const over = await world.attempt("server", "restore", copy);
  assert.equal(over.code, 1);
  assert.match(over.stderr, /not empty: move what is there aside/);
  renameSync(data, `${data}.lost`);
  await world.exclave("server", "restore", copy);
  await world.up();

  const hold = async () => {
    const { holds } = await world.json<InstallView>("install", "show", "acme");
    return holds.find(({ command }) => command === "exclave release --channel stable");
  };
  await until("it is said what the server does not know", async () => (await hold()) !== undefined);
  assert.match((await hold())?.because ?? "", /restored from an older backup/);
  await world.exclave("release", green, "--channel", "stable", "--wait");
  await untilHealthy(world, "acme");
  assert.deepEqual(trail(world).slice(0, before.length), before);
  await world.exclave("audit", "verify");
});
