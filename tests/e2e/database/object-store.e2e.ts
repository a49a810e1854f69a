// The whole line with logs, sources and registry content in a real S3-compatible store, while the server is killed in
// the middle of uploads and the store goes away. Afterwards: nothing lost, nothing launched twice.

import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { JobView } from "@exclave/api";
import { hasVersitygw, startVersitygw } from "@exclave/oci/testing/objects";
import { repeated, until, untilHealthy, type World } from "../testing/harness.ts";
import { createShopWorld, trail, writeShop } from "../testing/shop-app.ts";

const skip = !hasVersitygw() && "versitygw is not on this machine (npm run test:tools builds it)";

test("the whole line with content in an object store", { skip }, async (t) => {
  const gateway = await startVersitygw();
  t.after(gateway.close);
  const world = await createShopWorld(t, { environment: gateway.environment });
  const data = join(world.home, "server");

  await t.test("content is in the store and not in the directory", async () => {
    for (const place of ["logs", "uploads"]) assert.deepEqual(readdirSync(join(data, place)), []);
    assert.ok(!existsSync(join(data, "registry/blobs")));
    assert.match(await logOf(world, "api"), /applying api/);
  });

  await t.test("its keys are known to the server alone", () => {
    const secret = gateway.environment["AWS_SECRET_ACCESS_KEY"] ?? "";
    for (const pid of world.pids("agent")) {
      const environment = readFileSync(`/proc/${pid}/environ`, "utf8");
      assert.ok(!environment.includes(secret), `process ${pid}`);
    }
    assert.ok(!world.upOutput().includes(secret));
  });

  await t.test("the server is killed while a release is uploaded and built", async () => {
    const colour = writeShop(world, { colour: "orange" });
    const builds = async () =>
      (await world.jobs()).filter(({ operation }) => operation === "build").length;
    const before = await builds();
    const releasing = world.attempt("release", colour, "--channel", "stable", "--wait");
    // A build may be over sooner than anybody sees it run.
    await until("something is being built", async () => (await builds()) > before);
    assert.ok(world.kill("server/src/main.ts", "--data") > 0);
    await releasing;
    await until("the release is made", async () => {
      const again = await world.attempt("release", colour, "--channel", "stable", "--wait");
      return again.code === 0;
    });
    await until("it is deployed", async () =>
      (await world.attempt("logs", "acme", "web")).stdout.includes("orange"),
    );
    await untilHealthy(world, "acme");
  });

  await t.test("the store is away while a job runs, and its log comes later, whole", async () => {
    const before = trail(world).length;
    const applied = () => trail(world).slice(before);
    writeShop(world, { colour: "yellow", applySeconds: 3 });
    await world.exclave("release", "shop", "--channel", "stable", "--wait");
    await until("the api is being applied", () =>
      applied().some((line) => line.startsWith("api apply")),
    );
    await gateway.stop();
    await until("the api is done all the same", () =>
      applied().some((line) => line.startsWith("api done")),
    );
    const away = (await applies(world, "api")).at(0);
    assert.equal(away?.logComplete, false);

    await gateway.start();
    await until("its log is complete", async () =>
      (await applies(world, "api")).every(({ logComplete }) => logComplete),
    );
    await untilHealthy(world, "acme");
    assert.match(await logOf(world, "api"), /applying api/);
    assert.deepEqual(repeated(trail(world).filter((line) => line.includes(" apply "))), []);
  });

  await t.test("it does not start for another place", async () => {
    await world.down();
    const { EXCLAVE_OBJECT_STORE: _, ...elsewhere } = world.env();
    const { code, stderr } = await world.attemptWith(elsewhere, "up");
    assert.notEqual(code, 0);
    assert.match(stderr, /content is in s3:\/\/tenant\/content\//);
  });
});

/** The newest first. */
async function applies(world: World, component: string): Promise<JobView[]> {
  const jobs = await world.jobs();
  return jobs.filter((job) => job.operation === "apply" && job.component === component);
}

async function logOf(world: World, component: string): Promise<string> {
  const [newest] = await applies(world, component);
  return world.exclave("job", "logs", newest?.id ?? "");
}
