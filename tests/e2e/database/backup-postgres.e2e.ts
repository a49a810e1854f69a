// A server on PostgreSQL is backed up as docs/guides/operate.md says, the database first and the directory second, goes
// on, is lost with its database, and comes back from both.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, renameSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { InstallView } from "@exclave/api";
import { has, until, untilHealthy } from "../testing/harness.ts";
import { createShopWorld, trail, writeShop } from "../testing/shop-app.ts";
import { createDatabase, skip } from "./testing/postgres-database.ts";

const lacksDump =
  !(has("pg_dump") && has("pg_restore")) &&
  "no pg_dump on PATH (apt-get install postgresql-client)";

test("a server on PostgreSQL comes back from pg_dump and a copy", {
  skip: skip || lacksDump,
}, async (t) => {
  const { cluster, url } = await createDatabase(t);
  const environment: Record<string, string> = { EXCLAVE_DATABASE_URL: url };
  const world = await createShopWorld(t, { environment });
  const data = join(world.home, "server");
  const [dump, copy] = [join(world.place, "exclave.dump"), join(world.place, "copy")];

  execFileSync("pg_dump", ["--format=custom", `--file=${dump}`, url]);
  await world.exclave("server", "backup", copy);
  assert.ok(!existsSync(join(copy, "exclave.db")));

  const first = trail(world).length;
  const green = writeShop(world, { colour: "green" });
  await world.exclave("release", green, "--channel", "stable", "--wait");
  await until("the update is deployed", async () => trail(world).length > first);
  await untilHealthy(world, "acme");
  const before = trail(world);
  await world.down();

  renameSync(data, `${data}.lost`);
  environment["EXCLAVE_DATABASE_URL"] = await cluster.create();
  const target = `--dbname=${environment["EXCLAVE_DATABASE_URL"]}`;
  execFileSync("pg_restore", ["--exit-on-error", "--single-transaction", target, dump]);
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
