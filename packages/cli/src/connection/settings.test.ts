import assert from "node:assert/strict";
import { mkdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { createBench } from "../testing/run-cli.ts";

describe("contexts", () => {
  test("are kept in a file that only its owner reads, and the first becomes the current one", async (t) => {
    const bench = await createBench(t);

    await bench.run([
      "context",
      "add",
      "prod",
      "--server",
      "https://exclave.test",
      "--token-file",
      "t",
    ]);
    await bench.run(["context", "add", "beta", "--server", "https://beta.test"]);
    const { stdout } = await bench.run(["contexts", "ls", "-o", "json"]);

    assert.deepEqual(
      JSON.parse(stdout).map(({ name, current }: { name: string; current: boolean }) => [
        name,
        current,
      ]),
      [
        ["prod", true],
        ["beta", false],
      ],
    );
    assert.equal((await stat(join(bench.home, "config.yaml"))).mode & 0o777, 0o600);
  });

  test("are named by --context, and by `use` for all commands after it", async (t) => {
    const bench = await createBench(t);
    await bench.run(["context", "add", "prod", "--server", "https://prod.test"]);
    await bench.run(["context", "add", "beta", "--server", "https://beta.test"]);

    const asked = await bench.run(["context", "show", "--context", "beta", "-o", "name"]);
    await bench.run(["context", "use", "beta"]);
    const used = await bench.run(["context", "show", "-o", "name"]);

    assert.equal(asked.stdout, "https://beta.test\n");
    assert.equal(used.stdout, "https://beta.test\n");
  });

  test("that do not exist are not found, and the sentence names those that do", async (t) => {
    const bench = await createBench(t);
    await bench.run(["context", "add", "prod", "--server", "https://prod.test"]);

    const { exitCode, stderr } = await bench.run(["context", "use", "prd"]);

    assert.equal(exitCode, 4);
    assert.match(stderr, /there is no context prd\n {2}there is: prod/);
  });

  test("can be removed again", async (t) => {
    const bench = await createBench(t);
    await bench.run(["context", "add", "prod", "--server", "https://prod.test"]);

    await bench.run(["context", "rm", "prod"]);

    assert.equal((await bench.run(["context", "list", "-o", "json"])).stdout, "[]\n");
  });

  test("take a token from stdin, never from an argument", async (t) => {
    const bench = await createBench(t);

    const add = ["context", "add", "prod", "--server", "https://prod.test", "--token-stdin"];
    await bench.run(add, { stdin: "s3cret\n" });
    const listed = await bench.run(["context", "list"]);

    assert.match(await readFile(join(bench.home, "config.yaml"), "utf8"), /token: s3cret/);
    assert.doesNotMatch(listed.stdout, /s3cret/);
  });

  test("without a server are refused with the line to write", async (t) => {
    const bench = await createBench(t);

    const { exitCode, stderr } = await bench.run(["context", "add", "prod"]);

    assert.equal(exitCode, 2);
    assert.match(stderr, /exclave context add prod --server/);
  });

  test("a settings file that cannot be read is named, with what is wrong in it", async (t) => {
    const bench = await createBench(t);
    await mkdir(bench.home, { recursive: true });
    await writeFile(join(bench.home, "config.yaml"), "contexts:\n  prod: { server: nowhere }\n");

    const { exitCode, stderr } = await bench.run(["context", "list"]);

    assert.equal(exitCode, 2);
    assert.match(stderr, /config\.yaml cannot be read: [\s\S]*server/);
  });
});
