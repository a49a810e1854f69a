// The whole line with PostgreSQL behind the server, while the server, its connections and the database itself are
// killed. Afterwards: nothing lost, nothing launched twice, the audit chain whole.

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { PostgresCluster } from "@exclave/server/testing/postgres";
import { repeated, until, untilHealthy, type World } from "../testing/harness.ts";
import { createShopWorld, trail, writeShop } from "../testing/shop-app.ts";
import { createDatabase, skip } from "./testing/postgres-database.ts";

test("the whole line on PostgreSQL, with everything killed once", { skip }, async (t) => {
  const { cluster, url } = await createDatabase(t);
  const world = await createShopWorld(t, { environment: { EXCLAVE_DATABASE_URL: url } });
  assert.ok(!existsSync(join(world.home, "server/exclave.db")), "nothing is kept in a file");

  await t.test("the server", () =>
    duringApply(world, "red", async () => {
      assert.ok(world.kill("server/src/main.ts", "--data") > 0);
    }),
  );
  await t.test("every connection to the database", () =>
    duringApply(world, "orange", async () => {
      assert.ok((await cutConnections(cluster)) > 0);
    }),
  );
  await t.test("the database", () => duringApply(world, "yellow", () => cluster.crash()));

  await t.test("its address is known to the server alone", () => {
    for (const pid of world.pids("agent")) {
      const environment = readFileSync(`/proc/${pid}/environ`, "utf8");
      assert.ok(!environment.includes("EXCLAVE_DATABASE_URL"), `process ${pid}`);
    }
  });

  await t.test("is destroyed without a trace", async () => {
    await world.exclave("install", "destroy", "acme", "--yes", "--wait");
    await world.exclave("audit", "verify");
    assert.deepEqual(world.pids("installs/acme"), []);
  });
});

async function duringApply(
  world: World,
  colour: string,
  strike: () => Promise<void>,
): Promise<void> {
  const before = trail(world).length;
  const applied = () => trail(world).slice(before);
  writeShop(world, { colour, applySeconds: 3 });
  await world.exclave("release", "shop", "--channel", "stable", "--wait");
  await until("the api is being applied", () =>
    applied().some((line) => line.startsWith("api apply")),
  );
  await strike();
  await until(`${colour} is done`, async () => {
    const { health } = await world.install("acme");
    const isDone = applied().some((line) => line.startsWith("api done"));
    return isDone && health === "healthy";
  });
  await untilHealthy(world, "acme");
  assert.deepEqual(repeated(trail(world)), []);
  await world.exclave("audit", "verify");
}

async function cutConnections(cluster: PostgresCluster): Promise<number> {
  const cut = await cluster.run(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'exclave'",
  );
  return cut.length;
}
