// A server with a deployed install moves from SQLite to PostgreSQL: the install stays up, is updated and destroyed.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { untilHealthy } from "../testing/harness.ts";
import { createShopWorld, trail, writeShop } from "../testing/shop-app.ts";
import { createDatabase, skip } from "./testing/postgres-database.ts";

const MIGRATE = ["server", "migrate", "--from", "sqlite", "--to", "postgres"];

test("a tenant moves from SQLite to PostgreSQL", { skip }, async (t) => {
  const { url } = await createDatabase(t);
  const environment: Record<string, string> = {};
  const world = await createShopWorld(t, { environment });
  const before = trail(world);
  const file = join(world.home, "server/exclave.db");

  await t.test("not without an address, and not while the server runs", async () => {
    const unsaid = await world.attempt(...MIGRATE);
    assert.equal(unsaid.code, 2);
    assert.match(unsaid.stderr, /EXCLAVE_DATABASE_URL/);
    environment["EXCLAVE_DATABASE_URL"] = url;
    const running = await world.attempt(...MIGRATE);
    assert.equal(running.code, 1);
    assert.match(running.stderr, /another server is already running/);
  });

  await world.down();
  await t.test("an empty database is not begun with while the memory is in SQLite", async () => {
    await assert.rejects(world.up(), /exclave server migrate --from sqlite/);
  });

  await t.test("is moved by one command", async () => {
    await world.exclave(...MIGRATE);
    assert.ok(!existsSync(file));
    assert.ok(existsSync(`${file}.moved`));
  });

  await t.test("does not begin anew when the address is forgotten", async () => {
    delete environment["EXCLAVE_DATABASE_URL"];
    await assert.rejects(world.up(), /set EXCLAVE_DATABASE_URL/);
    environment["EXCLAVE_DATABASE_URL"] = url;
  });

  await t.test(
    "resumes where it was: nothing is deployed again, the record continues",
    async () => {
      await world.up();
      await untilHealthy(world, "acme");
      assert.deepEqual(trail(world), before);
      await world.exclave("audit", "verify", "--install", "acme");
    },
  );

  await t.test("is updated and destroyed", async () => {
    writeShop(world, { colour: "red" });
    await world.exclave("release", "shop", "--channel", "stable", "--wait");
    await untilHealthy(world, "acme");
    assert.ok(
      trail(world)
        .slice(before.length)
        .some((line) => line.startsWith("api apply")),
    );
    await world.exclave("install", "destroy", "acme", "--yes", "--wait");
    await world.exclave("audit", "verify");
    assert.deepEqual(world.pids("installs/acme"), []);
  });
});
