// A release crosses an air gap as one file: the vendor's registry has nothing for the install any
// more, and what the install needs comes in through `exclave install load` alone.

import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { ReleaseView } from "@exclave/api";
import { createWorld, until, untilHealthy, type World } from "../testing/harness.ts";
import { writeShop } from "../testing/shop-app.ts";

test("a release reaches an install as a file, with the vendor's registry off", async (t) => {
  const world = await createWorld(t);
  await world.up();
  const app = writeShop(world, { colour: "blue" });
  const first = await world.json<ReleaseView>("release", app, "--channel", "stable", "--wait");
  const bundle = join(world.place, "one.oci.tar");

  await t.test("it is written as one file that any tool can look into", async () => {
    const written = await world.json<{ sizeBytes: number; sha256: string }>(
      "release",
      "bundle",
      first.version,
      "--app",
      "shop",
      "-f",
      bundle,
    );

    assert.ok(written.sizeBytes > 1_000_000, "the runner alone is larger");
    assert.match(written.sha256, /^[0-9a-f]{64}$/);
    const seen = await world.json<{ digest: string }>("oci", "inspect", `oci-archive:${bundle}`);
    assert.equal(seen.digest, first.digest);
  });

  await t.test("a new install gets it before its first sync could", async () => {
    // The setup agent is the vendor's own: it reads the release's statement before it sets up.
    const artifactsOn = turnOff(world, ["apps", "exclave/plugins"]);
    const wish = ["--app", "shop", "--input", "title=Shop"];
    await world.exclave("install", "create", "acme", ...wish);
    await until("the first sync found nothing", async () =>
      (await world.jobs("--install", "acme")).some(
        ({ operation, state }) => operation === "sync" && state === "failed",
      ),
    );
    assert.equal(existsSync(join(world.place, "trail.txt")), false, "nothing was deployed");
    const releasesOn = turnOff(world, ["releases"]);

    await world.exclave("install", "load", "acme", bundle);
    await world.exclave("install", "deploy", "acme", "--wait");

    await untilHealthy(world, "acme");
    assert.equal((await page(world)).colour, "blue");
    artifactsOn();
    releasesOn();
  });

  writeShop(world, { colour: "green" });
  const second = await world.json<ReleaseView>("release", app, "--wait");
  const next = join(world.place, "two.oci.tar");
  await world.exclave("release", "bundle", second.id, "-f", next);
  const registryOn = turnOff(world, ["apps", "releases", "exclave/plugins"]);

  await t.test("an altered bundle is refused and nothing of it is written", async () => {
    const altered = join(world.place, "altered.oci.tar");
    const bytes = readFileSync(next);
    const middle = Math.floor(bytes.length / 2);
    bytes.writeUInt8(bytes.readUInt8(middle) ^ 0xff, middle);
    writeFileSync(altered, bytes);
    const before = contentOf(world);

    const { code, stderr } = await world.attempt("install", "load", "acme", altered);

    assert.notEqual(code, 0);
    assert.match(stderr, /does not match sha256:/);
    assert.deepEqual(contentOf(world), before);
  });

  await t.test(
    "the next release is deployed from its file, by the home of the install",
    async () => {
      const home = join(world.home, "installs/acme");
      await world.exclave("install", "load", next, "--directory", home);

      await world.exclave("channel", "set", "shop", "stable", second.id);
      await world.exclave("install", "deploy", "acme", "--wait");

      const healthy = await untilHealthy(world, "acme");
      assert.equal(healthy.release, second.id);
      assert.equal((await page(world)).colour, "green");
      await world.exclave("audit", "verify");
    },
  );
  registryOn();
});

/** Takes repositories away from the vendor's registry; what a setup needs stays. */
function turnOff(world: World, names: readonly string[]): () => void {
  const repositories = join(world.home, "server/registry/repositories");
  for (const name of names) renameSync(join(repositories, name), aside(name));
  return () => {
    for (const name of names) renameSync(aside(name), join(repositories, name));
  };

  function aside(name: string): string {
    return join(world.place, `off-${name.replaceAll("/", "-")}`);
  }
}

/** Every file of the install's own registry. */
function contentOf(world: World): string[] {
  const registry = join(world.home, "installs/acme/registry");
  return readdirSync(registry, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name))
    .sort();
}

async function page(world: World): Promise<{ colour: string }> {
  const { components } = await world.install("acme");
  const url = components.find(({ name }) => name === "web")?.outputs["url"];
  return (await fetch(String(url))).json() as Promise<{ colour: string }>;
}
