// Each verb against a server that answers in the API's shapes: what is printed, and with what the
// program ends.

import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import type { ServerResponse } from "node:http";
import { join } from "node:path";
import { describe, test } from "node:test";
import { Failure } from "@exclave/core";
import { parse } from "yaml";
import { type ApiDouble, createApiDouble } from "../testing/api-double.ts";
import { createBench } from "../testing/run-cli.ts";
import { agentView, channelView, installView, jobView, page, tokenView } from "../testing/views.ts";

describe("answers", () => {
  test("are an object for `show` and an array for `list`, as JSON on stdout alone", async (t) => {
    const double = await createApiDouble(t, {
      getInstall: () => installView(),
      listJobs: () => page([jobView()]),
    });
    const bench = await createBench(t, double);

    const shown = await bench.run(["install", "show", "acme", "-o", "json"]);
    const listed = await bench.run(["jobs", "ls", "-o", "json"]);

    assert.deepEqual(JSON.parse(shown.stdout), installView());
    assert.deepEqual(JSON.parse(listed.stdout), [jobView()]);
    assert.equal(shown.stderr + listed.stderr, "");
  });

  test("are the same in YAML, and names alone one per line", async (t) => {
    const double = await createApiDouble(t, {
      listInstalls: () => page([installView(), installView({ name: "globex" })]),
    });
    const bench = await createBench(t, double);

    const yaml = await bench.run(["install", "list", "-o", "yaml"]);
    const names = await bench.run(["installs", "list", "-o", "name"]);

    assert.equal(parse(yaml.stdout)[1].name, "globex");
    assert.equal(names.stdout, "acme\nglobex\n");
  });

  test("come whole, however many pages the server cuts them into", async (t) => {
    const double = await createApiDouble(t, {
      listAgents: ({ query }) =>
        query.cursor === undefined
          ? { items: [agentView()], next: "2" }
          : { items: [agentView({ kind: "setup" })], next: null },
    });
    const bench = await createBench(t, double);

    const { stdout } = await bench.run(["agent", "list", "-o", "json"]);

    assert.deepEqual(
      JSON.parse(stdout).map(({ kind }: { kind: string }) => kind),
      ["build", "setup"],
    );
  });

  test("for people say why an install is not further and what ends it", async (t) => {
    const alarm = {
      at: new Date(1_800_000_000_000).toISOString(),
      because: "the agent started over",
    };
    const hold = {
      component: "web",
      because: "api failed",
      endsWhen: "somebody retries",
      command: "retry",
    };
    const double = await createApiDouble(t, {
      getInstall: () => installView({ phase: "held", holds: [hold], alarms: [alarm] }),
    });
    const bench = await createBench(t, double);

    const { stdout } = await bench.run(["install", "show", "acme"]);

    assert.match(stdout, /web {8}service {2}deployed {2}healthy/);
    assert.match(stdout, /waits:\n {2}web: api failed; ends when somebody retries/);
    assert.match(stdout, /alarms:\n {2}\d{4}-.*: the agent started over/);
  });

  test("have colours on a terminal, and none with --no-color or NO_COLOR", async (t) => {
    const double = await createApiDouble(t, { getInstall: () => installView() });
    const bench = await createBench(t, double);
    const show = ["install", "show", "acme"];

    const coloured = await bench.run(show, { isTTY: true });
    const bare = await bench.run([...show, "--no-color"], { isTTY: true });
    const asked = await bench.run(show, { isTTY: true, environment: { NO_COLOR: "1" } });

    assert.ok(coloured.stdout.includes("\u001B[32mhealthy"));
    assert.ok(!bare.stdout.includes("\u001B"));
    assert.ok(!asked.stdout.includes("\u001B"));
  });

  test("of an empty list say so in words, and as JSON are an empty array", async (t) => {
    const double = await createApiDouble(t, { listChannels: () => page([]) });
    const bench = await createBench(t, double);

    assert.match((await bench.run(["channel", "list"])).stdout, /there is no channel yet/);
    assert.equal((await bench.run(["channel", "list", "-o", "json"])).stdout, "[]\n");
  });
});

describe("wishes", () => {
  test("the inputs of an install are sent as they were written", async (t) => {
    const double = await createApiDouble(t, { createInstall: () => installView() });
    const bench = await createBench(t, double);

    const create = ["install", "create", "acme", "--app", "crm", "--input", "domain=a=b.test"];
    await bench.run([
      ...create,
      "--input",
      "seats=5",
      "--input",
      "trial=true",
      "--input",
      "code=007",
    ]);

    assert.deepEqual(firstBody(double).inputs, {
      domain: "a=b.test",
      seats: "5",
      trial: "true",
      code: "007",
    });
  });

  test("a removal is allowed component by component", async (t) => {
    const double = await createApiDouble(t, { deployInstall: () => installView() });
    const bench = await createBench(t, double);

    await bench.run([
      "install",
      "deploy",
      "acme",
      "--allow-destroy",
      "a,b",
      "--allow-destroy",
      "c",
    ]);

    assert.deepEqual(firstBody(double).allowDestroy, ["a", "b", "c"]);
  });

  test("a channel is pointed at a release", async (t) => {
    const double = await createApiDouble(t, { setChannel: () => channelView({ version: "2" }) });
    const bench = await createBench(t, double);

    const { exitCode, stdout } = await bench.run(["channel", "set", "crm", "stable", "2"]);

    assert.equal(exitCode, 0);
    assert.match(stdout, /crm {2}stable {3}2/);
    assert.deepEqual(firstBody(double), { release: "2" });
  });

  test("a new token is on stdout, and the remark about it is not", async (t) => {
    const double = await createApiDouble(t, {
      createToken: () => ({ ...tokenView(), token: "the-value" }),
    });
    const bench = await createBench(t, double);

    const { stdout, stderr } = await bench.run(["token", "create", "ci", "--role", "operator"]);

    assert.equal(stdout, "the-value\n");
    assert.match(stderr, /not shown again/);
  });
});

describe("taking things away", () => {
  const destroy = ["install", "destroy", "acme"];

  test("asks a person for the name first, and does nothing on another answer", async (t) => {
    const double = await createApiDouble(t, { destroyInstall: () => installView() });
    const bench = await createBench(t, double);

    const wrong = await bench.run(destroy, { isTTY: true, stdin: "yes\n" });
    assert.deepEqual([wrong.exitCode, double.asked.length], [2, 0]);
    assert.match(wrong.stderr, /takes down everything in acme[\s\S]*nothing was done; --yes/);

    const none = await bench.run(destroy, { isTTY: true, stdin: "" });
    assert.deepEqual([none.exitCode, double.asked.length], [2, 0]);

    const right = await bench.run(destroy, { isTTY: true, stdin: "acme\n" });
    assert.deepEqual([right.exitCode, double.asked.length], [0, 1]);
  });

  test("does nothing for a script that did not say --yes", async (t) => {
    const double = await createApiDouble(t, { destroyInstall: () => installView() });
    const bench = await createBench(t, double);

    for (const verb of ["destroy", "forget"]) {
      const ran = await bench.run(["install", verb, "acme"], { stdin: "acme\n" });

      assert.deepEqual([ran.exitCode, ran.stdout], [2, ""]);
      assert.equal(ran.stderr, "error: nothing was done; --yes goes on without asking\n");
    }
    assert.deepEqual(double.asked, []);
  });

  test("asks nobody with --yes, with a terminal or without", async (t) => {
    const note = { forgotten: "acme", id: "iacmeaaaaaaaaaaaa", note: "its record stays" };
    const double = await createApiDouble(t, {
      destroyInstall: () => installView(),
      forgetInstall: () => note,
    });
    const bench = await createBench(t, double);

    const destroyed = await bench.run([...destroy, "--yes"]);
    const forgotten = await bench.run(["install", "forget", "acme", "-y"], { isTTY: true });

    assert.deepEqual([destroyed.exitCode, destroyed.stderr], [0, ""]);
    assert.equal(forgotten.stdout, "acme is forgotten: its record stays\n");
  });
});

describe("jobs that are followed", () => {
  test("exec writes the command's output to stdout and ends with its exit code", async (t) => {
    const double = await createApiDouble(t, {
      runInInstall: () => jobView({ operation: "exec", state: "queued" }),
      getJobLog: () => "hello\n",
      getJob: () => jobView({ operation: "exec", state: "failed", exitCode: 42 }),
    });
    const bench = await createBench(t, double);

    const ran = await bench.run(["exec", "acme", "web", "--", "sh", "-c", "exit 42"]);

    assert.deepEqual(ran, { exitCode: 42, stdout: "hello\n", stderr: "" });
    assert.deepEqual(firstBody(double).command, ["sh", "-c", "exit 42"]);
  });

  test("exec goes on at the byte where a restart of the server cut it off", async (t) => {
    const states = ["running", "failed"] as const;
    const parts = [
      (response: ServerResponse) => response.write("one ", () => response.destroy()),
      (response: ServerResponse) => response.destroy(),
      // A server that stops ends the stream in good order.
      (response: ServerResponse) => response.end("two "),
      (response: ServerResponse) => response.end("three\n"),
    ];
    const from: unknown[] = [];
    let looks = 0;
    const double = await createApiDouble(t, {
      runInInstall: () => jobView({ operation: "exec", state: "queued" }),
      getJobLog: ({ query }) => {
        from.push(query.from);
        return parts[from.length - 1];
      },
      getJob: () =>
        jobView({ operation: "exec", state: states[looks++] ?? "failed", exitCode: 42 }),
    });
    const bench = await createBench(t, double);

    const ran = await bench.run(["exec", "acme", "web", "--", "true"]);

    assert.deepEqual([ran.exitCode, ran.stdout], [42, "one two three\n"]);
    assert.deepEqual(from, [0, 4, 4, 8]);
    assert.match(ran.stderr, /^the connection to the server broke; reconnecting\n/);
    assert.doesNotMatch(ran.stderr, /\n\s+at /);
  });

  test("a log request the install refuses ends with its reason", async (t) => {
    const failure = { code: "policy" as const, message: "logs are not allowed here" };
    const double = await createApiDouble(t, {
      runInInstall: () => jobView({ operation: "logs", state: "queued" }),
      getJobLog: () => "",
      getJob: () => jobView({ operation: "logs", state: "rejected", failure }),
    });
    const bench = await createBench(t, double);

    const { exitCode, stderr } = await bench.run(["logs", "acme", "web", "--tail", "5"]);

    assert.equal(exitCode, 1);
    assert.match(stderr, /the logs ended as rejected: logs are not allowed here/);
    assert.equal(firstBody(double).tailLines, 5);
  });
});

describe("errors", () => {
  const refusals = [
    {
      code: "not_found",
      exitCode: 4,
      says: /error: there is no install acme\n {2}.*exclave install list/,
    },
    { code: "forbidden", exitCode: 3, says: /token create/ },
    { code: "conflict", exitCode: 6, says: /error: there is no install acme\n$/ },
    { code: "invalid", exitCode: 2, says: /error: there is no install acme\n$/ },
    { code: "bug", exitCode: 70, says: /error: there is no install acme\n$/ },
  ] as const;
  for (const { code, exitCode, says } of refusals) {
    test(`${code} ends with ${exitCode} and a sentence`, async (t) => {
      const double = await createApiDouble(t, {
        getInstall: () => {
          throw new Failure(code, "there is no install acme");
        },
      });
      const bench = await createBench(t, double);

      const ran = await bench.run(["install", "show", "acme", "-o", "json"]);

      assert.equal(ran.exitCode, exitCode);
      assert.match(ran.stderr, says);
      assert.equal(ran.stdout, "");
    });
  }

  test("a server that is not there ends with 3 and says how to start one", async (t) => {
    const bench = await createBench(t);

    const { exitCode, stderr } = await bench.run([
      "install",
      "list",
      "--server",
      "http://127.0.0.1:1",
    ]);

    assert.equal(exitCode, 3);
    assert.match(stderr, /cannot reach the server at http:\/\/127\.0\.0\.1:1\n {2}.*exclave up/);
  });

  test("a token the server does not know ends with 3", async (t) => {
    const bench = await createBench(t, await createApiDouble(t, {}));

    const { exitCode, stderr } = await bench.run(["agent", "list"], {
      environment: { EXCLAVE_TOKEN: "wrong" },
    });

    assert.equal(exitCode, 3);
    assert.match(stderr, /context show/);
  });

  test("a token file is read, and one that is missing is named", async (t) => {
    const double = await createApiDouble(t, { listAgents: () => page([]) });
    const bench = await createBench(t);
    const file = join(bench.directory, "token");
    await writeFile(file, `${double.token}\n`);
    const list = ["agent", "list", "--server", double.url, "--token-file"];

    assert.equal((await bench.run([...list, file])).exitCode, 0);
    const missing = await bench.run([...list, `${file}-not`]);
    assert.equal(missing.exitCode, 3);
    assert.match(missing.stderr, /token-not cannot be read/);
  });

  const misuses: readonly [string, RegExp][] = [
    ["instal list", /unknown command 'instal'[\s\S]*Did you mean install/],
    ["install show", /missing required argument 'name'/],
    ["install create acme", /required option '--app/],
    ["install show acme -o xml", /Allowed choices are table, json, yaml, name/],
    ["install create Acme --app crm", /"Acme" is no name of an install: it must be lower-case/],
    ["install create a --app crm --timeout soon", /such as 90s, 10m or 1h30m/],
    ["install create a --app crm --input x", /name=value/],
    ["logs acme web --tail many", /whole number/],
    ["up --port 99999", /between 1 and 65535/],
    ["completion tcsh", /Allowed choices are bash, zsh, fish/],
  ];
  for (const [line, says] of misuses) {
    test(`\`${line}\` ends with 2 and says what is wrong`, async (t) => {
      const bench = await createBench(t, await createApiDouble(t, {}));

      const { exitCode, stderr, stdout } = await bench.run(line.split(" "));

      assert.equal(exitCode, 2);
      assert.match(stderr, says);
      assert.equal(stdout, "");
    });
  }

  test("an app without exclave.yaml is told how to begin", async (t) => {
    const bench = await createBench(t);
    await mkdir(join(bench.directory, "empty"));

    const { exitCode, stderr } = await bench.run(["check", "empty"]);

    assert.equal(exitCode, 2);
    assert.match(stderr, /there is no empty\/exclave\.yaml\n {2}.*exclave init/);
  });
});

/** What the first call brought along. */
function firstBody({ asked }: ApiDouble): Record<string, unknown> {
  const [first] = asked;
  assert.ok(first, "nothing was asked");
  return first.request.body as Record<string, unknown>;
}

test("a token goes to no host in the clear, unless that was asked for", async (t) => {
  const bench = await createBench(t);
  const environment = { EXCLAVE_SERVER: "http://192.0.2.1:1", EXCLAVE_TOKEN: "exclave_secret" };

  const refused = await bench.run(["install", "list"], { environment });
  const shown = await bench.run(["context", "show"], { environment });

  assert.notEqual(refused.exitCode, 0);
  assert.match(refused.stderr, /plain HTTP beyond this machine.*--insecure-http/);
  assert.equal(shown.exitCode, 0);
});

test("what others wrote reaches a terminal without control sequences, and a pipe as it is", async (t) => {
  const evil = "\u001B]0;title\u0007\u001B[2Jhello\r\u009B1mbad\n";
  const job = jobView({ because: `asked\u001B[8m for` });
  const double = await createApiDouble(t, {
    getJobLog: () => evil,
    getJob: () => job,
    getInstall: () => {
      throw new Failure("not_found", `there is no install ${evil}`);
    },
  });
  const bench = await createBench(t, double);
  const logs = ["job", "logs", job.id];

  const shown = await bench.run(logs, { isTTY: true });
  const piped = await bench.run(logs);
  const raw = await bench.run([...logs, "--raw"], { isTTY: true });
  const failed = await bench.run(["install", "show", "acme"], { isTTY: true });
  const named = await bench.run(["job", "show", job.id], { isTTY: true });

  assert.equal(shown.stdout, "hello^M^[[1mbad\n");
  assert.equal(piped.stdout, evil);
  assert.equal(raw.stdout, evil);
  assert.match(failed.stderr, /there is no install hello\^M/);
  assert.match(named.stdout, /asked for/);
});
