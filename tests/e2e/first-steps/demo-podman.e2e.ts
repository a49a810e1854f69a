// `npm start -- --sandbox podman`: the demo in containers, on a Podman that is started for it and ends with it.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { lacksPodman } from "@exclave/runtime/testing/podman";
import { createWorld, processes, untilHealthy } from "../testing/harness.ts";

const lacking = lacksPodman();

test("the demo runs in containers, stops with all of them, and resumes", {
  skip: lacking ?? false,
}, async (t) => {
  const environment: Record<string, string> = {};
  // Its own to remove: the engine's storage goes first.
  const place = mkdtempSync(join(tmpdir(), "exclave-e2e-"));
  const world = await createWorld(t, { environment, place });
  const storage = join(world.place, "storage");
  const conf = join(world.place, "storage.conf");
  writeFileSync(
    conf,
    `[storage]\ndriver = "overlay"\ngraphroot = "${storage}/root"\nrunroot = "${storage}/run"\n`,
  );
  environment["CONTAINERS_STORAGE_CONF"] = conf;
  const podman = (...args: readonly string[]) =>
    execFileSync("podman", ["--runtime", "runc", "--cgroup-manager", "cgroupfs", ...args], {
      env: world.env(),
      encoding: "utf8",
      stdio: "pipe",
    }).trim();
  t.after(async () => {
    await world.down();
    podman("rm", "--all", "--force", "--time", "0");
    podman("system", "reset", "--force");
    rmSync(place, { recursive: true, force: true, maxRetries: 5 });
  });

  await world.up("--demo", "--sandbox", "podman");
  const install = await untilHealthy(world, "acme");
  const url = String(install.components.find(({ name }) => name === "web")?.outputs.url);
  assert.equal((await fetch(url)).status, 200);
  const running = () => podman("ps", "--format", "{{.Names}}").split("\n").filter(Boolean);
  const kinds = running().map((name) => name.replace(/^exclave-[^-]+-/, "").replace(/[.].*/, ""));
  for (const kind of ["gate", "registry", "agent", "service-web", "service-api"]) {
    assert.ok(kinds.includes(kind), `${kind} in ${kinds.join(", ")}`);
  }

  await world.down();
  assert.deepEqual(running(), []);
  assert.deepEqual(processes(world.home), []);

  await world.up();
  await untilHealthy(world, "acme");
  assert.equal((await fetch(url)).status, 200);

  await world.exclave("install", "destroy", "acme", "--yes", "--wait");
  assert.equal(podman("ps", "--all", "--quiet"), "");
  assert.equal(podman("volume", "ls", "--quiet"), "");
});
