// check, init and release: what lies in a directory, and what the server is asked for.

import assert from "node:assert/strict";
import { chmod, mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, test } from "node:test";
import { readTar } from "@exclave/core";
import { type Answers, createApiDouble } from "../testing/api-double.ts";
import { type Bench, createBench } from "../testing/run-cli.ts";
import { agentView, jobView, page, pluginView, releaseView } from "../testing/views.ts";

const APP = `app: shop
components:
  - name: web
    type: service
    source: ./web
    command: [node, server.mjs]
`;

const KNOWN: Answers = { listPlugins: () => page([pluginView("service"), pluginView("command")]) };

describe("check", () => {
  test("finds nothing wrong with what init wrote", async (t) => {
    const bench = await createBench(t, await createApiDouble(t, KNOWN));

    const made = await bench.run(["init", "my-shop"]);
    const checked = await bench.run(["check", "my-shop"]);

    assert.equal(made.exitCode, 0);
    assert.match(made.stdout, /wrote my-shop\/exclave\.yaml/);
    assert.deepEqual([checked.exitCode, checked.stderr], [0, ""]);
    assert.match(checked.stdout, /my-shop\/exclave\.yaml is good: app my-shop, 2 components/);
  });

  test("prints every problem with its place, and what was probably meant", async (t) => {
    const bench = await createBench(t, await createApiDouble(t, KNOWN));
    await app(bench, {
      "exclave.yaml": `${APP.replace("app:", "ap:")}  - name: api\n    type: servce\n`,
      "web/server.mjs": "",
    });

    const { exitCode, stdout, stderr } = await bench.run(["check", "shop"]);

    assert.equal(exitCode, 2);
    assert.match(stdout, /^shop\/exclave\.yaml:1:1: .*ap.*app/m);
    assert.match(stdout, /^shop\/exclave\.yaml:8:11: .*servce.*service/m);
    assert.match(stderr, /shop\/exclave\.yaml has \d problems/);
  });

  test("without a server says so and checks what it can", async (t) => {
    const bench = await createBench(t);
    await app(bench, { "exclave.yaml": APP, "web/server.mjs": "" });

    const { exitCode, stdout, stderr } = await bench.run(["check", "shop", "-o", "json"]);

    assert.equal(exitCode, 0);
    assert.match(stderr, /without the rules of the component types: no server is known/);
    assert.equal(JSON.parse(stdout).withPlugins, false);
  });

  test("misses a source that is not there, and a plugin that is none", async (t) => {
    const bench = await createBench(t, await createApiDouble(t, KNOWN));
    await app(bench, { "exclave.yaml": APP });
    const missing = await bench.run(["check", "shop"]);
    const own = APP.replace(
      "components:",
      "plugins:\n  - { type: own, source: ./own }\ncomponents:",
    );
    await app(bench, { "exclave.yaml": own, "web/x": "", "own/plugin.json": '{"version":1}' });
    const broken = await bench.run(["check", "shop"]);

    assert.match(
      missing.stdout,
      /^shop\/exclave\.yaml:5:13: the source of web, \.\/web, is not there/,
    );
    assert.match(
      broken.stdout,
      /exclave\.yaml:3:26: own\/plugin\.json is no plugin descriptor: type: /,
    );
    assert.deepEqual([missing.exitCode, broken.exitCode], [2, 2]);
  });

  test("finds a sandbox nobody has, and the missing source of a type nobody has", async (t) => {
    const listPlugins = () => ({ ...page([pluginView("service")]), sandboxes: ["local"] });
    const bench = await createBench(t, await createApiDouble(t, { listPlugins }));
    await app(bench, {
      "exclave.yaml": `${APP.replace("components:", "sandbox: { use: locl }\ncomponents:")}  - { name: odd, type: nothing, source: ./odd }\n`,
      "web/server.mjs": "",
    });

    const { exitCode, stdout } = await bench.run(["check", "shop"]);

    assert.equal(exitCode, 2);
    assert.match(stdout, /^shop\/exclave\.yaml:2:17: there is no sandbox `locl`; there are local/m);
    assert.match(stdout, /^shop\/exclave\.yaml:8:.* there is no plugin for type `nothing`/m);
    assert.match(stdout, /^shop\/exclave\.yaml:8:.* the source of odd, \.\/odd, is not there/m);
  });
});

describe("init", () => {
  test("does not write into a directory that holds something", async (t) => {
    const bench = await createBench(t);
    await app(bench, { "notes.txt": "mine" });

    const { exitCode, stderr } = await bench.run(["init", "shop"]);

    assert.equal(exitCode, 6);
    assert.match(stderr, /shop is not empty/);
  });
});

describe("release", () => {
  test("uploads what the server does not have, and nothing twice", async (t) => {
    const there = new Map<string, Uint8Array>();
    const double = await createApiDouble(t, {
      ...KNOWN,
      ...builds([releaseView()]),
      headSource: ({ params }) => ({ exists: there.has(params.digest ?? "") }),
      putSource: ({ params, body }) => {
        there.set(params.digest ?? "", body as Uint8Array);
        return { digest: params.digest, sizeBytes: (body as Uint8Array).length };
      },
    });
    const bench = await createBench(t, double);
    await app(bench, {
      "exclave.yaml": APP,
      "web/server.mjs": "listen",
      "web/bin/run": "#!/bin/sh",
      "web/.git/config": "mine",
      "web/debug.log": "noise",
      "web/.exclaveignore": "# noise\n*.log\n",
    });
    await chmod(join(bench.directory, "shop/web/bin/run"), 0o755);

    const first = await bench.run(["release", "shop", "--channel", "stable"]);
    const second = await bench.run(["release", "shop", "--channel", "stable"]);

    assert.deepEqual([first.exitCode, second.exitCode], [0, 0]);
    const [bytes] = [...there.values()];
    assert.deepEqual(
      readTar(bytes ?? new Uint8Array()).map((entry) => [
        entry.path,
        entry.type === "symlink" ? 0 : entry.mode,
      ]),
      [
        ["bin", 0o755],
        ["bin/run", 0o755],
        ["server.mjs", 0o644],
      ],
    );
    assert.equal(double.asked.filter(({ call }) => call === "putSource").length, 1);
    const asked = double.asked.find(({ call }) => call === "createRelease")?.request.body;
    assert.deepEqual(asked, {
      config: APP,
      file: "shop/exclave.yaml",
      sources: { web: [...there.keys()][0] },
      channel: "stable",
    });
  });

  test("brings the vendor's own plugins along, with what they say of themselves", async (t) => {
    const double = await createApiDouble(t, {
      ...KNOWN,
      ...builds([releaseView()]),
      headSource: () => ({ exists: true }),
    });
    const bench = await createBench(t, double);
    await app(bench, {
      "exclave.yaml": APP.replace(
        "components:",
        "plugins:\n  - { type: own, source: ./own }\ncomponents:",
      ),
      "web/server.mjs": "",
      "own/plugin.json": JSON.stringify({ ...pluginView("own").descriptor, run: ["./x.sh"] }),
    });

    await bench.run(["release", "shop"]);

    const body = double.asked.find(({ call }) => call === "createRelease")?.request.body as {
      sources: object;
      plugins: object;
    };
    assert.deepEqual(Object.keys(body.sources), ["plugin:own", "web"]);
    assert.deepEqual(Object.keys(body.plugins), ["own"]);
  });

  test("shows each build once on its way, and the whole release in the end", async (t) => {
    const web = { name: "web", type: "service", artifact: null, reused: false, job: jobView().id };
    const artifact = `sha256:${"d".repeat(64)}`;
    const double = await createApiDouble(t, {
      ...KNOWN,
      ...builds([
        releaseView({ state: "building", components: [web] }),
        releaseView({ components: [{ ...web, artifact }] }),
      ]),
      listJobs: () => page([jobView({ operation: "build", state: "running" })]),
      headSource: () => ({ exists: true }),
    });
    const bench = await createBench(t, double);
    await app(bench, { "exclave.yaml": APP, "web/server.mjs": "" });

    const { exitCode, stderr, stdout } = await bench.run(["release", "shop", "-o", "json"]);

    assert.equal(exitCode, 0);
    assert.match(stderr, /web +service +build running\n[\s\S]*web +service +built\n/);
    assert.equal(JSON.parse(stdout).state, "ready");
  });

  test("that fails ends with 1, the reason, and where its log is", async (t) => {
    const failed = jobView({
      operation: "build",
      state: "failed",
      failure: { code: "tool", message: "no" },
    });
    const double = await createApiDouble(t, {
      ...KNOWN,
      ...builds([releaseView({ state: "failed", because: "the build of web failed" })]),
      listJobs: () => page([failed]),
      headSource: () => ({ exists: true }),
    });
    const bench = await createBench(t, double);
    await app(bench, { "exclave.yaml": APP, "web/server.mjs": "" });

    const { exitCode, stderr } = await bench.run(["release", "shop"]);

    assert.equal(exitCode, 1);
    assert.match(
      stderr,
      /error: release 1 failed: the build of web failed; its log: exclave job logs j/,
    );
  });

  test("that takes too long ends with 5 and says what it waits for", async (t) => {
    const web = { name: "web", type: "service", artifact: null, reused: false, job: jobView().id };
    const double = await createApiDouble(t, {
      ...KNOWN,
      ...builds([releaseView({ state: "building", components: [web] })]),
      headSource: () => ({ exists: true }),
    });
    const bench = await createBench(t, double);
    await app(bench, { "exclave.yaml": APP, "web/server.mjs": "" });

    const { exitCode, stderr } = await bench.run(["release", "shop", "--timeout", "1ms"]);

    assert.equal(exitCode, 5);
    assert.match(stderr, /it waits for the build of web/);
  });

  test("right after a first start waits until the build agent has published the types", async (t) => {
    let looks = 0;
    const double = await createApiDouble(t, {
      ...builds([releaseView()]),
      listPlugins: () => page(looks++ === 0 ? [] : [pluginView("service")]),
      listAgents: () => page([agentView({ kind: "build" })]),
      headSource: () => ({ exists: true }),
    });
    const bench = await createBench(t, double);
    await app(bench, { "exclave.yaml": APP, "web/server.mjs": "" });

    const { exitCode, stderr } = await bench.run(["release", "shop"]);

    assert.equal(exitCode, 0);
    assert.match(stderr, /waiting for the build agent to publish the component types/);
  });

  test("of an app with problems asks the server for nothing", async (t) => {
    const double = await createApiDouble(t, KNOWN);
    const bench = await createBench(t, double);
    await app(bench, { "exclave.yaml": APP.replace("web", "Web"), "web/server.mjs": "" });

    const { exitCode, stderr } = await bench.run(["release", "shop"]);

    assert.equal(exitCode, 2);
    assert.match(stderr, /shop\/exclave\.yaml:3:/);
    assert.deepEqual(
      double.asked.map(({ call }) => call),
      ["listPlugins"],
    );
  });
});

/** A release that is asked about again and again, and says the next thing each time. */
function builds(views: readonly ReturnType<typeof releaseView>[]): Answers {
  let looks = 0;
  return {
    createRelease: () => releaseView({ state: "building" }),
    getRelease: () => views[Math.min(looks++, views.length - 1)],
    listJobs: () => page([]),
  };
}

async function app({ directory }: Bench, files: Readonly<Record<string, string>>): Promise<void> {
  for (const [path, text] of Object.entries(files)) {
    const full = join(directory, "shop", path);
    await mkdir(dirname(full), { recursive: true });
    await writeFile(full, text);
  }
}
