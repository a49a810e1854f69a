// The commands that start programs of the oci package, with the real programs.

import assert from "node:assert/strict";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { Failure } from "@exclave/core";
import { createApiDouble } from "../testing/api-double.ts";
import { createBench } from "../testing/run-cli.ts";
import { page, releaseView } from "../testing/views.ts";

describe("registry serve", () => {
  test("prints where it listens, serves there, and ends without a complaint at Ctrl-C", async (t) => {
    const bench = await createBench(t);
    const stop = new AbortController();
    const printed = Promise.withResolvers<string>();
    const running = bench.run(
      ["registry", "serve", "--anonymous", "--address", "127.0.0.1:0", "-o", "json"],
      { signal: stop.signal, onStdout: (text) => printed.resolve(text) },
    );

    const { url } = JSON.parse(await printed.promise);
    const { status } = await fetch(`${url}/v2/`);
    stop.abort();
    const { exitCode, stderr } = await running;

    assert.equal(status, 200);
    assert.equal(exitCode, 0, stderr);
    await assert.rejects(fetch(`${url}/v2/`));
  });

  test("is told who may use it", async (t) => {
    const bench = await createBench(t);

    const neither = await bench.run(["registry", "serve"]);
    const both = await bench.run(["registry", "serve", "--anonymous", "--auth-keys", "k"]);

    assert.equal(neither.exitCode, 2);
    assert.match(neither.stderr, /--anonymous opens it to everyone/);
    assert.equal(both.exitCode, 2);
  });

  test("that cannot start ends with its reason", async (t) => {
    const bench = await createBench(t);

    const { exitCode, stderr } = await bench.run(["registry", "serve", "--auth-keys", "missing"]);

    assert.notEqual(exitCode, 0);
    assert.match(stderr, /missing/);
  });
});

describe("server migrate", () => {
  const MIGRATE = ["server", "migrate", "--from", "sqlite", "--to", "postgres"];

  test("wants the address in the environment, where only the server sees it", async (t) => {
    const bench = await createBench(t);

    const { exitCode, stderr } = await bench.run(MIGRATE);

    assert.equal(exitCode, 2);
    assert.match(stderr, /set EXCLAVE_DATABASE_URL/);
  });

  test("of a directory without a database ends with its reason", async (t) => {
    const bench = await createBench(t);
    const environment = { EXCLAVE_DATABASE_URL: "postgres://127.0.0.1:1/none" };

    const { exitCode, stderr } = await bench.run([...MIGRATE, "--data", "nowhere"], {
      environment,
    });

    assert.equal(exitCode, 1);
    assert.match(stderr, /no SQLite database at .*nowhere.*--data/);
  });
});

describe("oci", () => {
  test("passes on what it was given and what came of it", async (t) => {
    const bench = await createBench(t);
    await writeFile(join(bench.directory, "note.txt"), "hello");

    const pushed = await bench.run(["oci", "push", "oci:layout:notes", "note.txt", "-o", "json"]);
    const copied = await bench.run([
      "oci",
      "copy",
      "oci:layout",
      "oci-archive:a.tar",
      "--no-referrers",
    ]);
    const shown = await bench.run(["oci", "inspect", "oci-archive:a.tar"]);
    await mkdir(join(bench.directory, "out"));
    const pulled = await bench.run(["oci", "pull", "oci-archive:a.tar", "out"]);

    const { digest } = JSON.parse(pushed.stdout);
    assert.equal(copied.exitCode, 0, copied.stderr);
    assert.equal(JSON.parse(shown.stdout).digest, digest);
    assert.equal(pulled.exitCode, 0, pulled.stderr);
    assert.equal(await readFile(join(bench.directory, "out", "note.txt"), "utf8"), "hello");
  });

  test("that is stopped before it began ends as any other Ctrl-C", async (t) => {
    const bench = await createBench(t);
    const signal = AbortSignal.abort();

    const { exitCode } = await bench.run(["oci", "inspect", "oci:nothing"], { signal });

    assert.equal(exitCode, 130);
  });

  test("ends with the program's own code", async (t) => {
    const bench = await createBench(t);

    const missing = await bench.run(["oci", "inspect", "oci:nothing"]);
    const wrong = await bench.run(["oci", "inspect", "no-host"]);

    assert.equal(missing.exitCode, 4, missing.stderr);
    assert.equal(wrong.exitCode, 2, wrong.stderr);
    assert.match(wrong.stderr, /^error: /);
  });

  test("lists what there is, and refuses what there is not before anything is started", async (t) => {
    const bench = await createBench(t);

    const help = await bench.run(["oci", "--help"]);
    const typo = await bench.run(["oci", "copy", "a", "b", "--plane-http"]);
    const format = await bench.run(["oci", "inspect", "oci:x", "-o", "yaml"]);

    for (const verb of ["copy", "inspect", "push", "pull", "bundle"]) {
      assert.match(help.stdout, new RegExp(`^  ${verb} `, "m"));
    }
    assert.equal(typo.exitCode, 2);
    assert.match(typo.stderr, /Did you mean --plain-http/);
    assert.equal(format.exitCode, 2);
  });
});

describe("release", () => {
  const ready = releaseView({ id: "rone", version: "7" });

  test("lists and shows by id and by version", async (t) => {
    const double = await createApiDouble(t, {
      listReleases: () => page([ready]),
      getRelease: ({ params }) => {
        if (params.release === "rone") return ready;
        throw new Failure("not_found", `there is no release ${params.release}`);
      },
    });
    const bench = await createBench(t, double);

    const list = await bench.run(["release", "list", "-o", "json"]);
    const byId = await bench.run(["release", "show", "rone", "-o", "json"]);
    const byVersion = await bench.run(["release", "show", "7", "--app", ready.app, "-o", "name"]);
    const missing = await bench.run(["release", "show", "8"]);

    assert.deepEqual(JSON.parse(list.stdout), [ready]);
    assert.deepEqual(JSON.parse(byId.stdout), ready);
    assert.equal(byVersion.stdout, "rone\n");
    assert.equal(missing.exitCode, 4);
    assert.match(missing.stderr, /`exclave release list` shows what there is/);
  });

  test("asks whose version is meant when two apps have it", async (t) => {
    const double = await createApiDouble(t, {
      listReleases: () => page([ready, { ...ready, id: "rtwo", app: "shop" }]),
      getRelease: () => {
        throw new Failure("not_found", "there is no release 7");
      },
    });
    const bench = await createBench(t, double);

    const { exitCode, stderr } = await bench.run(["release", "show", "7"]);

    assert.equal(exitCode, 2);
    assert.match(stderr, /say which is meant with --app/);
  });

  test("is bundled only when it is ready, and where there is a directory", async (t) => {
    const building = { ...ready, id: "rtwo", state: "building", digest: null };
    const double = await createApiDouble(t, {
      getRelease: ({ params }) => (params.release === "rone" ? ready : building),
    });
    const bench = await createBench(t, double);

    const early = await bench.run(["release", "bundle", "rtwo", "-f", "x.tar"]);
    const nowhere = await bench.run(["release", "bundle", "rone", "-f", "no/such/x.tar"]);
    const noFile = await bench.run(["release", "bundle", "rone"]);

    assert.equal(early.exitCode, 6);
    assert.match(early.stderr, /is building/);
    assert.equal(nowhere.exitCode, 4);
    assert.equal(noFile.exitCode, 2);
  });
});

describe("install load", () => {
  test("wants the install and the file, or the file and the directory", async (t) => {
    const bench = await createBench(t);

    const alone = await bench.run(["install", "load", "x.tar"]);
    const both = await bench.run(["install", "load", "acme", "x.tar", "--directory", "d"]);
    const nobody = await bench.run(["install", "load", "acme", "x.tar"]);

    assert.equal(alone.exitCode, 2);
    assert.equal(both.exitCode, 2);
    assert.equal(nobody.exitCode, 4);
    assert.match(nobody.stderr, /there is no install in .*installs\/acme/);
  });
});
