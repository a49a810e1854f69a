// The whole line on Podman: every job a container, the agent and the registry, too.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { InstallView, JobView } from "@exclave/api";
import { listEngine } from "@exclave/machine/engine";
import {
  createScratchEngine,
  lacksPodman,
  type ScratchEngine,
} from "@exclave/runtime/testing/podman";
import { createWorld, until, untilHealthy, type World } from "../testing/harness.ts";

const lacking = lacksPodman();
let engine: ScratchEngine;

if (lacking === undefined) {
  before(async () => {
    engine = await createScratchEngine();
  });
  after(() => engine.close());
}

test("an install whose jobs are containers, from its source to its end", {
  skip: lacking ?? false,
}, async (t) => {
  const world = await createWorld(t);
  await world.up();
  const app = writeShop(world, "blue");
  await world.exclave("release", app, "--channel", "stable", "--wait");

  await t.test("is set up and deployed", async () => {
    await createInstall(world);
    const install = await untilHealthy(world, "acme");

    const states = install.components.map(({ name, state }) => `${name}:${state}`);
    assert.deepEqual(states.toSorted(), ["database:deployed", "web:deployed"]);
    assert.deepEqual(await pageOf(install), { colour: "blue", database: "db://one" });
  });

  await t.test("runs every job, the agent and the registry as a container that is nobody", () => {
    const users = engine
      .podman("ps", "--all", "--format", "{{.Names}}")
      .split("\n")
      .map((name) => {
        const [found] = JSON.parse(engine.podman("container", "inspect", name));
        const { Privileged, ReadonlyRootfs, CapAdd } = found.HostConfig;
        assert.deepEqual([Privileged, ReadonlyRootfs, CapAdd ?? []], [false, true, []], name);
        assert.deepEqual(found.EffectiveCaps ?? [], [], name);
        return [name.replace(/.*-/, ""), found.Config.User] as const;
      });
    assert.deepEqual(users.filter(([name]) => name === "agent" || name === "registry").toSorted(), [
      ["agent", "65530:65530"],
      ["registry", "65533:65533"],
    ]);
  });

  await t.test("gives logs, and runs a command where the service is", async () => {
    assert.match(await world.exclave("logs", "acme", "web"), /web is up in blue/);
    const command = ["sh", "-c", "id -u; echo $EXCLAVE_COMPONENT; exit 7"];
    const ran = await world.attempt("exec", "acme", "web", "--", ...command);
    assert.equal(ran.code, 7);
    assert.match(ran.stdout, /65532\s+web/);
  });

  await t.test("redeploys what a release changed", async () => {
    writeShop(world, "green");
    await world.exclave("release", app, "--channel", "stable", "--wait");
    await until("the page is green", async () => {
      const page = await pageOf(await world.install("acme"));
      return page.colour === "green";
    });
    await untilHealthy(world, "acme");
    assert.equal(services().length, 1, "the one before it is gone");
  });

  await t.test("brings back a service whose container was removed behind its back", async () => {
    const [name = ""] = services();
    engine.podman("rm", "--force", "--time", "0", name);

    await until("the service is there again", () => services().length === 1);
    assert.equal((await pageOf(await untilHealthy(world, "acme"))).colour, "green");
  });

  await t.test("ends a job that eats all its memory, and nothing else", async () => {
    const before = systemPids();
    const eat = "const all = []; for (;;) all.push(Buffer.alloc(64 << 20, 1))";
    const ran = await world.attempt("exec", "acme", "database", "--", "node", "-e", eat);

    assert.notEqual(ran.code, 0);
    assert.deepEqual(systemPids(), before);
    const [job] = await jobsOf(world, "exec");
    assert.notEqual(job?.exitCode ?? -1, 0, JSON.stringify(job));
    await untilHealthy(world, "acme");
  });

  await t.test(
    "goes on after deaths of the agent, the engine's service and the registry",
    async () => {
      const running = world.attempt(
        "exec",
        "acme",
        "database",
        "--",
        "sh",
        "-c",
        "echo began; sleep 8; echo ended; exit 5",
      );
      await until(
        "the command runs",
        async () => (await jobsOf(world, "exec"))[0]?.state === "running",
      );
      killPart("agent");
      await engine.kill();
      await engine.serve();
      const ran = await running;

      assert.match(ran.stdout, /began[\s\S]*ended/);
      assert.equal(ran.code, 5);
      killPart("registry");
      writeShop(world, "red");
      await world.exclave("release", app, "--channel", "stable", "--wait");
      await until("the page is red", async () => {
        return (await pageOf(await world.install("acme"))).colour === "red";
      });
    },
  );

  await t.test("is destroyed, and leaves nothing in the engine", async () => {
    const { id } = await world.install("acme");
    await world.exclave("install", "destroy", "acme", "--yes", "--wait");

    const left = await listEngine({ socket: engine.socket, owner: `exclave-${id}` });
    assert.deepEqual(left, { containers: [], volumes: [], networks: [], images: [] });
    assert.equal(engine.podman("ps", "--all", "--quiet"), "");
    assert.equal(engine.podman("volume", "ls", "--quiet"), "");
    assert.doesNotMatch(engine.podman("images", "--format", "{{.Repository}}"), /exclave/);
  });
});

async function createInstall(world: World): Promise<void> {
  const config = { socket: engine.socket, network: "host", exec: "allowed" };
  const settings = Object.entries(config).flatMap(([k, v]) => ["--sandbox-config", `${k}=${v}`]);
  const install = ["install", "create", "acme", "--app", "shop", "--sandbox", "podman"];
  await world.exclave(...install, ...settings, "--wait");
}

/** kill -9 behind the engine's back: one that the engine is asked to kill it does not start again. */
function killPart(part: "agent" | "registry"): void {
  const id = engine.podman("ps", "--quiet", "--filter", `label=dev.exclave.system=${part}`);
  process.kill(Number(engine.podman("inspect", "--format", "{{.State.Pid}}", id)), "SIGKILL");
}

function systemPids(): string[] {
  const ids = engine.podman("ps", "--quiet", "--filter", "label=dev.exclave.system").split("\n");
  return ids.map((id) => engine.podman("inspect", "--format", "{{.State.Pid}}", id)).toSorted();
}

function services(): string[] {
  const filter = ["--filter", "label=dev.exclave.component=web"];
  return engine
    .podman("ps", "--all", "--quiet", ...filter)
    .split("\n")
    .filter(Boolean);
}

async function jobsOf(world: World, operation: string): Promise<JobView[]> {
  const jobs = await world.jobs("--install", "acme");
  return jobs.filter((job) => job.operation === operation);
}

async function pageOf({ components }: InstallView): Promise<{ colour: string; database: string }> {
  const url = components.find(({ name }) => name === "web")?.outputs.url;
  const answer = await fetch(String(url));
  return (await answer.json()) as { colour: string; database: string };
}

/** database → web: a script and a service, which need nothing of the machine they run on. */
function writeShop(world: World, colour: string): string {
  world.write(
    "shop/database/apply.sh",
    `#!/bin/sh\nset -eu\necho applying\nprintf '{"url":"db://one"}' > "$EXCLAVE_OUTPUTS"\n`,
  );
  world.write(
    "shop/web/server.mjs",
    `import { createServer } from "node:http";
createServer((_, response) => {
  response.end(JSON.stringify({ colour: "${colour}", database: process.env.DATABASE }));
}).listen(Number(process.env.PORT), "127.0.0.1");
console.log("web is up in ${colour}");
`,
  );
  world.write(
    "shop/exclave.yaml",
    `app: shop
components:
  - name: database
    type: command
    source: ./database
    apply: [./apply.sh]
    limits: { memory: 256MiB }
  - name: web
    type: service
    source: ./web
    command: [node, server.mjs]
    health: { path: / }
    environment: { DATABASE: "\${{ components.database.outputs.url }}" }
    statusEverySeconds: 5
`,
  );
  return "shop";
}
