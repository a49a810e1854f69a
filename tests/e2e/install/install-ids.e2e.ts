// An install is its id. Its name may be used again while the one that had it before still runs, and the
// secret by which its agent joined is nowhere to be found afterwards.

import assert from "node:assert/strict";
import { existsSync, globSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { decodeJoinString, type InstallView } from "@exclave/api";
import { createWorld, until, untilHealthy, type World } from "../testing/harness.ts";
import { writeShop } from "../testing/shop-app.ts";

test("a name used again meets nothing of its predecessor, and join secrets are kept nowhere", async (t) => {
  const world = await createWorld(t);
  await world.up();
  await world.exclave("release", writeShop(world), "--channel", "stable", "--wait");

  const [first, joinString] = await Promise.all([create(world), caughtJoinString(world)]);

  await t.test("the join secret lies in no file of server or setup agent", async () => {
    const secret = decodeJoinString(joinString)?.secret;
    assert.ok(secret);
    const encoded = joinString.slice("exclave-join-v1.".length);
    const holders = () =>
      ["server", "agents", "log", "installs"].flatMap((place) =>
        filesHolding(join(world.home, place), [secret, encoded]),
      );
    // The job's own directory goes when the server has heard of its end.
    await until("nothing holds it", () => holders().length === 0);
  });

  await t.test(
    "forgotten and created again, it connects and deploys beside the old one",
    async () => {
      const old = world.pids("init.mjs");
      assert.ok(old.length > 0);
      await world.exclave("install", "forget", "acme", "--force", "--yes");

      const second = await create(world);

      assert.notEqual(second.id, first.id);
      const home = join(world.home, "installs", `acme-${second.id}`);
      assert.ok(existsSync(join(home, "sandbox.json")));
      assert.ok(
        old.every((pid) => world.pids("init.mjs").includes(pid)),
        "the old one still runs",
      );
      const jobs = await world.jobs("--install", "acme");
      assert.ok(jobs.every(({ installId }) => installId === second.id));
      assert.ok(
        jobs.some(({ component }) => component === "sandbox"),
        "its setup is among them",
      );
      const ambiguous = await world.attempt("install", "load", "acme", "none.oci.tar");
      assert.match(ambiguous.stderr, /there are 2 installs acme on this machine/);
    },
  );

  await t.test("destroying it leaves the old one's home as it was", async () => {
    await world.exclave("install", "destroy", "acme", "--yes", "--wait");

    assert.deepEqual(readdirSync(join(world.home, "installs")), ["acme"]);
    await world.exclave("audit", "verify");
  });
});

async function create(world: World): Promise<InstallView> {
  const wish = ["--app", "shop", "--input", "title=Acme"];
  await world.exclave("install", "create", "acme", ...wish, "--wait");
  return untilHealthy(world, "acme");
}

/** The setup job has it in its job document, as long as it runs. */
async function caughtJoinString(world: World): Promise<string> {
  const caught = { joinString: "" };
  const look = () => {
    const documents = globSync("agents/setup/runtime/jobs/**/job.json", { cwd: world.home });
    for (const path of documents) caught.joinString ||= joinStringIn(join(world.home, path));
    return caught.joinString !== "";
  };
  await until("a setup has a join string", look, { everyMs: 25 });
  return caught.joinString;
}

function joinStringIn(path: string): string {
  try {
    const document = JSON.parse(readFileSync(path, "utf8")) as {
      parameters?: { joinString?: string };
    };
    return document.parameters?.joinString ?? "";
  } catch {
    // It is being written, or gone.
    return "";
  }
}

function filesHolding(directory: string, values: readonly string[]): string[] {
  const files = readdirSync(directory, { recursive: true, encoding: "utf8" });
  return files.filter((name) => {
    const path = join(directory, name);
    try {
      if (!statSync(path).isFile()) return false;
      const bytes = readFileSync(path);
      return values.some((value) => bytes.includes(value));
    } catch {
      return false;
    }
  });
}
