// The whole line, with real processes: source → release → install → update → removal → destroy.

import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { AuditView, InstallView, JobView } from "@exclave/api";
import { createWorld, processes, repeated, until, untilHealthy } from "./testing/harness.ts";
import { trail, writeShop } from "./testing/shop-app.ts";

test("from a vendor's source to a deployed, updated, watched and destroyed install", async (t) => {
  const world = await createWorld(t);
  await world.up();
  const app = writeShop(world);

  await t.test("a release is built, signed and put on its channel", async () => {
    await world.exclave("check", app);
    const release = await world.json<{ state: string; signed: boolean; digest: string }>(
      "release",
      app,
      "--channel",
      "stable",
      "--wait",
    );
    assert.deepEqual([release.state, release.signed], ["ready", true]);
    assert.match(release.digest, /^sha256:/);
  });

  await t.test(
    "a new install gets the current release, whole, in dependency order, without anyone asking",
    async () => {
      await world.exclave(
        "install",
        "create",
        "acme",
        "--app",
        "shop",
        "--input",
        "title=Acme",
        "--wait",
      );
      const install = await untilHealthy(world, "acme");

      assert.deepEqual(install.components.map(({ name, type }) => `${name}:${type}`).sort(), [
        "api:command",
        "database:command",
        "reports:command",
        "web:service",
      ]);
      const order = trail(world).map((line) => line.split(" ").slice(0, 2).join(" "));
      assert.ok(order.indexOf("database done") < order.indexOf("api apply"), order.join("\n"));
      assert.ok(order.indexOf("database done") < order.indexOf("reports apply"), order.join("\n"));
      assert.deepEqual(repeated(trail(world)), []);
    },
  );

  await t.test(
    "expressions were evaluated in the install, and the generated secret never left it",
    async () => {
      const page = await fetchPage(await world.install("acme"));

      assert.deepEqual(
        [page.colour, page.api, page.title, page.keyLength],
        ["blue", "api://blue", "Acme", 48],
      );
      const logged = await world.exclave("logs", "acme", "web");
      assert.match(logged, /web is up in blue/);
      assert.doesNotMatch(logged, /the key is [0-9a-f]{48}/);
      assert.match(logged, /the key is /);
    },
  );

  await t.test("a debug command is a job with its own exit code, on record", async () => {
    const echo = await world.attempt(
      "exec",
      "acme",
      "web",
      "--",
      "sh",
      "-c",
      "echo from inside; exit 7",
    );

    assert.equal(echo.code, 7);
    assert.match(echo.stdout, /from inside/);
    const [job] = (await world.jobs("--install", "acme")).filter(
      ({ operation }) => operation === "exec",
    );
    assert.equal(job?.exitCode, 7);
  });

  await t.test("a new release redeploys what changed and only that", async () => {
    const before = trail(world).length;
    writeShop(world, { colour: "green" });
    const release = await world.json<{ components: { name: string; reused: boolean }[] }>(
      "release",
      app,
      "--channel",
      "stable",
      "--wait",
    );
    assert.deepEqual(
      release.components
        .filter(({ reused }) => !reused)
        .map(({ name }) => name)
        .sort(),
      ["api", "web"],
    );

    await until(
      "the page is green",
      async () => (await fetchPage(await world.install("acme"))).colour === "green",
    );
    const install = await untilHealthy(world, "acme");
    assert.equal((await fetchPage(install)).api, "api://green");
    assert.deepEqual(
      trail(world)
        .slice(before)
        .map((line) => line.split(" ")[0])
        .filter((name) => name !== "api"),
      [],
    );
  });

  await t.test(
    "a component that is no longer wanted goes only after an explicit wish",
    async () => {
      writeShop(world, { colour: "green", withReports: false });
      await world.exclave("release", app, "--channel", "stable", "--wait");
      await until("the hold is shown", async () =>
        (await world.install("acme")).holds.some(({ component }) => component === "reports"),
      );
      assert.ok(!trail(world).some((line) => line.startsWith("reports destroy")));
      const hold = (await world.install("acme")).holds.find(
        ({ component }) => component === "reports",
      );
      assert.match(hold?.endsWhen ?? "", /--allow-destroy/);

      await world.exclave("install", "deploy", "acme", "--allow-destroy", "reports", "--wait");
      await until("reports is gone", async () =>
        (await world.install("acme")).components.every(({ name }) => name !== "reports"),
      );
      assert.equal(trail(world).filter((line) => line.startsWith("reports destroy")).length, 1);
    },
  );

  await t.test(
    "a service that dies is started again by its supervisor, and the install is healthy again",
    async () => {
      const install = await world.install("acme");
      const port = String(install.components.find(({ name }) => name === "web")?.outputs["port"]);
      assert.ok(world.kill("server.mjs") > 0);
      await until(
        "the supervisor brought it back",
        async () => (await fetch(`http://127.0.0.1:${port}/`)).ok,
      );
      await untilHealthy(world, "acme");
    },
  );

  await t.test("nothing runs that does not lie in the install's own registry", async () => {
    const images = readdirSync(join(world.home, "installs/acme/runtime/images")).filter((name) =>
      name.includes("sha256"),
    );
    const blobs = join(world.home, "installs/acme/registry");
    const stored = new Set(
      readdirSync(blobs, { recursive: true, encoding: "utf8" }).map((path) =>
        path.split("/").at(-1),
      ),
    );
    assert.ok(images.length > 0);
    for (const image of images)
      assert.ok(
        stored.has(image.replace(/^sha256[:-]/, "")),
        `${image} runs and is not in the registry`,
      );
  });

  await t.test("blobs lost from the install's registry are noticed and re-synced", async () => {
    const { appId } = await world.install("acme");
    const content = join(world.home, "installs/acme/registry/content");
    const place = join(content, "repositories/apps", appId, "api");
    rmSync(place, { recursive: true });

    const lost = await world.attempt("exec", "acme", "api", "--", "true");

    // A health check may have noticed before the command did.
    if (lost.code !== 0) assert.match(lost.stderr, /is not in the registry of acme/);
    await until("a sync has brought it", () => existsSync(join(place, "+manifests")));
    await world.exclave("exec", "acme", "api", "--", "true");
    await untilHealthy(world, "acme");
  });

  await t.test("wrong input gives a sentence that helps and a non-zero exit", async () => {
    const cases: readonly (readonly [readonly string[], RegExp])[] = [
      [["install", "show", "nobody"], /nobody/],
      [["install", "create", "acme", "--app", "shop", "--input", "title=x"], /acme/],
      [["install", "create", "other", "--app", "shop"], /title/],
      [["install", "create", "Bad_Name", "--app", "shop", "--input", "title=x"], /lower-case/],
      [["exec", "acme", "nothing", "--", "true"], /nothing/],
      [["job", "show", "jzzzzzzzzzzzzzzzz"], /job/],
      [["release", "nowhere"], /exclave\.yaml|nowhere/],
      [["frobnicate"], /frobnicate/],
    ];
    for (const [args, sentence] of cases) {
      const result = await world.attempt(...args);
      assert.notEqual(result.code, 0, args.join(" "));
      assert.match(result.stderr, sentence, args.join(" "));
      assert.doesNotMatch(result.stderr, /\n\s+at .*\.ts:/, "a stack trace is no sentence");
    }
  });

  await t.test("what was done is on record, and the record is whole", async () => {
    // That an edit is found, with the database really edited, is in record.e2e.ts.
    await world.exclave("audit", "verify");
    const records = await world.json<AuditView[]>("audit", "list");
    assert.ok(records.some(({ action }) => action.includes("release")));
  });

  await t.test("destroy takes everything down in reverse, and the sandbox last", async () => {
    const before = trail(world).length;
    await world.exclave("install", "destroy", "acme", "--yes", "--wait");

    const order = trail(world)
      .slice(before)
      .map((line) => line.split(" ").slice(0, 2).join(" "));
    assert.deepEqual(order, ["api destroy", "database destroy"]);
    assert.ok(!existsSync(join(world.home, "installs/acme")));
    assert.deepEqual(
      processes(world.place).filter(({ command }) => command.includes("installs/acme")),
      [],
    );
    const jobs = await world.jobs("--install", "acme");
    assert.deepEqual(
      jobs.filter(({ state }) => !isEnd(state)),
      [],
    );
    await world.exclave("install", "forget", "acme", "--yes");
    assert.deepEqual(await world.json("install", "list"), []);
    await world.exclave("audit", "verify");
  });

  await t.test("Ctrl-C ends everything and leaves nothing running", async () => {
    assert.equal(await world.down(), 0);
    assert.deepEqual(processes(world.place), []);
  });

  await t.test("the admin token is its owner's alone, and is in no log", async () => {
    const path = join(world.home, "server/admin-token");
    assert.equal(statSync(path).mode & 0o077, 0);
    const token = readFileSync(path, "utf8").trim();
    for (const file of readdirSync(join(world.home, "log"))) {
      assert.ok(!readFileSync(join(world.home, "log", file), "utf8").includes(token), file);
    }
  });
});

interface Page {
  readonly colour: string;
  readonly api: string;
  readonly title: string;
  readonly keyLength: number;
}

async function fetchPage(install: InstallView): Promise<Page> {
  const url = install.components.find(({ name }) => name === "web")?.outputs["url"];
  const response = await fetch(String(url));
  return (await response.json()) as Page;
}

function isEnd(state: JobView["state"]): boolean {
  return ["succeeded", "failed", "cancelled", "rejected", "unknown"].includes(state);
}
