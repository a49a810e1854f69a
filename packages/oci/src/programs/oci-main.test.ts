// The program as people run it: its output, its exit codes, and what it leaves on disk.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, type TestContext, test } from "node:test";
import { serveRegistry } from "../registry/serve-registry.ts";
import { temporaryDirectory } from "../testing/temporary-directory.ts";

const PROGRAM = join(import.meta.dirname, "oci-main.ts");

interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

async function run(...args: string[]): Promise<Ended> {
  const env = { PATH: process.env["PATH"] ?? "", HOME: "/nowhere" };
  const child = spawn(process.execPath, [PROGRAM, ...args], { env });
  const output = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"] as const) {
    child[name].on("data", (chunk: Buffer) => {
      output[name] += chunk.toString();
    });
  }
  const code = await new Promise<number | null>((resolve) => child.once("close", resolve));
  return { code, ...output };
}

async function json(...args: string[]): Promise<Record<string, unknown>> {
  const { code, stdout, stderr } = await run(...args, "-o", "json");
  assert.equal(code, 0, stderr);
  return JSON.parse(stdout) as Record<string, unknown>;
}

async function world(t: TestContext) {
  const directory = await temporaryDirectory(t);
  const registry = await serveRegistry({
    directory: join(directory, "registry"),
    host: "127.0.0.1",
    port: 0,
    auth: { kind: "anonymous" },
  });
  t.after(() => registry.close());
  await mkdir(join(directory, "files"));
  await writeFile(join(directory, "files", "hello"), "hello");
  return { directory, host: registry.url.replace("http://", "") };
}

describe("exclave oci", () => {
  test("takes files through a registry, an archive and another registry, and they are the same", async (t) => {
    const { directory, host } = await world(t);
    const { host: other } = await world(t);
    const archive = join(directory, "bundle.tar");

    const pushed = await json(
      "push",
      `${host}/apps/crm:v1`,
      join(directory, "files"),
      "--plain-http",
    );
    await json("bundle", archive, `${host}/apps/crm:v1`, "--plain-http");
    const first = await readFile(archive);
    const copied = await json("copy", `oci-archive:${archive}`, `${other}/copy:v2`, "--plain-http");
    await json("pull", `${other}/copy:v2`, join(directory, "out"), "--plain-http");

    assert.equal(copied["digest"], pushed["digest"]);
    assert.equal(await readFile(join(directory, "out", "hello"), "utf8"), "hello");
    const again = join(directory, "again.tar");
    await json("bundle", again, `${host}/apps/crm:v1`, "--plain-http");
    assert.equal(sha(await readFile(again)), sha(first), "the same content, the same archive");
  });

  test("copies in two requests when there is nothing to do and no referrers are wanted", async (t) => {
    const { directory, host } = await world(t);
    await json("push", `${host}/a:v1`, join(directory, "files"), "--plain-http");
    const copy = ["copy", `${host}/a:v1`, `${host}/b:v1`, "--plain-http", "--no-referrers"];
    await json(...copy);

    const again = await json(...copy);

    assert.equal(again["requests"], 2);
    assert.equal(again["copiedBytes"], 0);
  });

  test("pushes files by name and pulls them back, and shows what is there", async (t) => {
    const { directory, host } = await world(t);
    const file = join(directory, "files", "hello");
    const args = ["--artifact-type", "text/greeting", "--plain-http"];

    await json("push", `${host}/a:v1`, file, ...args);
    const seen = await json("inspect", `${host}/a:v1`, "--plain-http");
    await json("pull", `${host}/a:v1`, join(directory, "out"), "--plain-http");

    assert.equal(seen["artifactType"], "text/greeting");
    assert.equal((seen["layers"] as unknown[]).length, 1);
    assert.equal(await readFile(join(directory, "out", "hello"), "utf8"), "hello");
  });

  test("writes no file outside the directory it pulls into", async (t) => {
    const { directory, host } = await world(t);
    const layout = join(directory, "layout");
    await json("push", `oci:${layout}:v1`, join(directory, "files", "hello"));
    const [name = ""] = (await blobsWith(layout, `"hello"`)).slice(-1);
    const text = await readFile(join(layout, "blobs/sha256", name), "utf8");
    const evil = text.replace(`"hello"`, `"../hello"`);
    await writeFile(join(layout, "blobs/sha256", sha(evil)), evil);
    const index = await readFile(join(layout, "index.json"), "utf8");
    await writeFile(join(layout, "index.json"), index.replaceAll(name, sha(evil)));

    const { code, stderr } = await run("pull", `oci:${layout}`, join(directory, "deep", "out"));

    assert.equal(code, 2);
    assert.match(stderr, /^error: "\.\.\/hello" cannot be the name of a file/);
    assert.deepEqual(await readdir(join(directory, "deep")), ["out"]);
    assert.ok(host);
  });

  test("ends with the documented codes, and says why in one line", async (t) => {
    const { directory, host } = await world(t);
    const to = `oci:${join(directory, "x")}`;

    for (const [code, message, ...args] of [
      [2, /usage: exclave oci/],
      [2, /there is no juggle/, "juggle"],
      [2, /Unknown option/, "copy", "--what"],
      [2, /does not begin with the host/, "copy", "apps/crm:v1", to],
      [4, /there is no v9 in a/, "copy", `${host}/a:v9`, to, "--plain-http"],
      [4, /there is no OCI layout/, "inspect", `oci:${directory}/nothing`],
      [4, /there is no .*missing/, "push", `${host}/a:v1`, `${directory}/missing`, "--plain-http"],
      [3, /cannot reach the registry/, "inspect", "127.0.0.1:1/a:v1", "--plain-http"],
    ] as const) {
      const ended = await run(...(args as string[]));

      assert.equal(ended.code, code, `${args.join(" ")}: ${ended.stderr}`);
      assert.match(ended.stderr, /^error: /);
      assert.match(ended.stderr, message);
      assert.equal(ended.stdout, "");
    }
  });

  test("says in a second line what can be done about it", async (t) => {
    const { host } = await world(t);

    const spokenTo = await run("inspect", `https://${host}/a:v1`);

    assert.equal(spokenTo.code, 3);
    assert.match(spokenTo.stderr, /^error: .*\n {2}if the registry speaks plain HTTP, .*\n$/);
  });
});

async function blobsWith(layout: string, text: string): Promise<string[]> {
  const folder = join(layout, "blobs/sha256");
  const found: string[] = [];
  for (const name of await readdir(folder)) {
    if ((await readFile(join(folder, name), "utf8")).includes(text)) found.push(name);
  }
  return found;
}

function sha(bytes: Buffer | string): string {
  return createHash("sha256").update(bytes).digest("hex");
}
