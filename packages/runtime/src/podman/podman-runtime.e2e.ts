// The runtime contract, kept by real containers, and what containers add to it.

import assert from "node:assert/strict";
import { after, before, describe, type TestContext, test } from "node:test";
import { clearEngine, listEngine } from "@exclave/machine/engine";
import { ended, outputText } from "../testing/job-observation.ts";
import { describeJobRuntime } from "../testing/job-runtime-contract.ts";
import { shell } from "../testing/job-script.ts";
import { cleanUp, prepared, said, specOf, started } from "../testing/runtime-under-test.ts";
import { createUnderTest } from "./testing/podman-under-test.ts";
import { createScratchEngine, lacksPodman, type ScratchEngine } from "./testing/scratch-engine.ts";

const lacking = lacksPodman();
let engine: ScratchEngine;
const create = async (t: TestContext) => createUnderTest(engine, t);

if (lacking !== undefined) {
  test("the Podman runtime keeps the job runtime contract", { skip: lacking }, () => undefined);
} else {
  before(async () => {
    engine = await createScratchEngine();
  });
  after(() => engine.close());

  describeJobRuntime("the Podman runtime", create, { shell: true });
  describe("the Podman runtime keeps a job in its container", describeContainers);
  describe("the Podman runtime after deaths and among many", describeRecovery);
}

function describeContainers(): void {
  test("a job is nobody, can write its own places alone, and has no network", async (t) => {
    const { runtime, name } = await started(
      create,
      t,
      shell(`id -u; touch /bin/x 2>/dev/null && echo root-is-writable
        grep -E '^Cap(Eff|Bnd|Prm)' /proc/self/status; grep NoNewPrivs /proc/self/status
        grep Seccomp: /proc/self/status; ls /sys/class/net; touch /tmp/x "$TMPDIR/x" && echo tmp`),
    );
    await ended(runtime, name);

    const lines = (await outputText(runtime, name)).replaceAll("\t", " ").trim().split("\n");

    const none = "0000000000000000";
    const caps = ["CapPrm", "CapEff", "CapBnd"].map((cap) => `${cap}: ${none}`);
    const held = ["NoNewPrivs: 1", "Seccomp: 2"];
    assert.deepEqual(lines, ["65532", ...caps, ...held, "lo", "tmp"]);
  });

  test("a sync is somebody else than the jobs that hold a component's state", async (t) => {
    const { runtime, name } = await started(create, t, shell("id -u"), { jobClass: "sync" });
    await ended(runtime, name);

    assert.equal(await outputText(runtime, name), "65531\n");
  });

  test("no job can be root, whatever a contract says", async (t) => {
    const { open, spec } = await preparedHere(t, "exit 0");

    const runtime = open({ identities: { apply: "0:0" } });

    await assert.rejects(runtime.start(spec), { code: "invalid" });
  });

  test("an image is read from the registry once, and what is not there starts nothing", async (t) => {
    const { runtime, open, spec, imageReads } = await preparedHere(t, "exit 0");
    const before = imageReads();
    await runtime.start(spec);
    await ended(runtime, spec.name);
    await runtime.remove(spec.name);

    await open().start(spec);

    assert.equal(imageReads() - before, 1);
    const digest = `sha256:${"0".repeat(64)}`;
    const unknown = { ...spec, image: { ...spec.image, digest }, name: `${spec.name}1` as never };
    await assert.rejects(runtime.start(unknown), { code: "not_synced" });
    assert.deepEqual(await runtime.list(), [spec.name]);
  });

  test("an agent that sees no processes of the engine learns of a container that vanished", async (t) => {
    const { open, spec, killEverything } = await preparedHere(t, "echo up; sleep 60");
    const runtime = open({ seesProcesses: false });
    await runtime.start(spec);
    assert.deepEqual(await runtime.inspect(spec.name), { kind: "running" });

    await killEverything?.(spec.name);

    const exit = await ended(runtime, spec.name);
    assert.equal(exit.kind, "lost");
  });
}

function describeRecovery(): void {
  test("a job goes on while the engine's service is dead, and is found with all it said", async (t) => {
    const { runtime, name } = await said(
      create,
      t,
      shell("echo before; sleep 2; echo after; exit 5"),
    );
    await engine.kill();
    await assert.rejects(runtime.inspect(name), { code: "unavailable" });
    await engine.serve();

    assert.deepEqual(await ended(runtime, name), { kind: "code", code: 5 });
    assert.equal(await outputText(runtime, name), "before\nafter\n");
  });

  test("takes over a container that was made and never started, and starts it once", async (t) => {
    const { runtime, open, owner, spec } = await preparedHere(t, "echo ran");
    await runtime.start(spec);
    await ended(runtime, spec.name);
    engine.podman("rm", `${owner}-${spec.name}`);
    engine.podman("volume", "rm", `${owner}-${spec.name}`);
    // As an agent leaves it that was killed between the two.
    const image = engine.podman("images", "--quiet", "--filter", `reference=*/${owner}`);
    const label = [
      "--label",
      `dev.exclave.owner=${owner}`,
      "--label",
      `dev.exclave.job=${spec.name}`,
    ];
    const places = ["--volume", `${owner}-${spec.name}:/job`, "--network", "none"];
    const limits = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"];
    engine.podman(
      "create",
      "--name",
      `${owner}-${spec.name}`,
      ...label,
      ...places,
      ...limits,
      image,
    );
    assert.equal((await runtime.inspect(spec.name)).kind, "waiting");

    await open().start(spec);

    assert.deepEqual(await ended(runtime, spec.name), { kind: "code", code: 0 });
    assert.equal(await outputText(runtime, spec.name), "ran\n");
  });

  test("what was made for nobody is swept, and a cleared engine holds nothing of its owner", async (t) => {
    const { open, owner, runtime, spec } = await preparedHere(t, "sleep 60");
    engine.podman(
      "volume",
      "create",
      "--label",
      `dev.exclave.owner=${owner}`,
      "--label",
      "dev.exclave.job=j-orphan-1",
      `${owner}-j-orphan-1`,
    );
    await open().start({ ...spec, stateVolume: "database" });
    const whose = { socket: engine.socket, owner };
    const there = await listEngine(whose);
    assert.deepEqual(there.volumes.toSorted(), [
      `${owner}-${spec.name}`,
      `${owner}-state-database`,
    ]);
    assert.deepEqual([there.containers.length, there.images.length], [1, 1]);

    const left = await clearEngine(whose);

    assert.deepEqual(left, { containers: [], volumes: [], networks: [], images: [] });
    assert.deepEqual(await runtime.list(), []);
  });

  test("fifty jobs at once: each ends by itself, and none is lost", {
    timeout: 120_000,
  }, async (t) => {
    const under = await create(t);
    const specs = [];
    for (let index = 0; index < 50; index++) {
      specs.push(await specOf(under, shell(`echo ${index}; exit ${index}`)));
    }
    cleanUp(t, under.runtime, ...specs.map(({ name }) => name));

    await Promise.all(specs.map((spec) => under.runtime.start(spec)));

    for (const [index, { name }] of specs.entries()) {
      assert.deepEqual(await ended(under.runtime, name), { kind: "code", code: index });
      assert.equal(await outputText(under.runtime, name), `${index}\n`);
    }
  });
}

async function preparedHere(t: TestContext, text: string) {
  const under = createUnderTest(engine, t);
  const { spec } = await prepared(async () => under, t, shell(text));
  return { ...under, spec };
}
