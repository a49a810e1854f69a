import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { generateKeyPairSync, randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdir, readdir, readFile, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { describe, type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Failure } from "@exclave/core";
import { createRegistryClient } from "../client/registry-client.ts";
import { writeBlobBytes } from "../content/content-store.ts";
import { collect, digestOf } from "../content/digest.ts";
import { createLayoutStore } from "../content/layout-store.ts";
import { mintToken } from "../credentials/token.ts";
import { packImage } from "../pack/pack.ts";
import { createRegistryFiles } from "../registry/files/registry-files.ts";
import { temporaryDirectory } from "../testing/temporary-directory.ts";

const MAIN = join(import.meta.dirname, "registry-main.ts");

function run(t: TestContext, args: string[]): ChildProcess {
  const child = spawn(process.execPath, [MAIN, ...args], { stdio: ["ignore", "pipe", "pipe"] });
  t.after(() => child.kill("SIGKILL"));
  return child;
}

async function start(t: TestContext, args: string[]) {
  const child = run(t, ["--address", "127.0.0.1:0", ...args]);
  for await (const url of createInterface({ input: child.stdout as NodeJS.ReadableStream })) {
    return { child, url };
  }
  throw new Error("the registry ended before it was ready");
}

async function finish(child: ChildProcess) {
  const [stdout, stderr, [code]] = await Promise.all([
    collect(child.stdout as AsyncIterable<Buffer>),
    collect(child.stderr as AsyncIterable<Buffer>),
    once(child, "exit"),
  ]);
  return { code, stdout: Buffer.from(stdout).toString(), stderr: Buffer.from(stderr).toString() };
}

async function* pieces(bytes: Uint8Array, gate: Promise<void>) {
  yield bytes.subarray(0, 100_000);
  await gate;
  yield bytes.subarray(100_000);
}

describe("the registry as a program", () => {
  test("writes where it is, serves, and ends on SIGTERM", async (t) => {
    const directory = await temporaryDirectory(t);
    const ready = join(directory, "ready");

    const args = ["--directory", join(directory, "data"), "--anonymous", "--ready-file", ready];
    const { child, url } = await start(t, args);

    assert.equal(await readFile(ready, "utf8"), `${url}\n`);
    assert.equal((await fetch(new URL("/v2/", url))).status, 200);
    child.kill("SIGTERM");
    assert.deepEqual(await once(child, "exit"), [0, null]);
  });

  test("keeps what it acknowledged through kill -9, and nothing of what it did not", async (t) => {
    const directory = await temporaryDirectory(t);
    const args = ["--directory", directory, "--anonymous"];
    const first = await start(t, args);
    const client = createRegistryClient({ url: first.url, attemptsMax: 1 });
    t.after(() => client.close());
    const kept = randomBytes(500_000);
    const lost = randomBytes(500_000);
    await writeBlobBytes(client, "a", "text/plain", kept);
    const killed = once(first.child, "exit").then(() => undefined);
    const source = pieces(lost, killed);
    const descriptor = { digest: digestOf(lost), size: lost.length };
    const uploading = assert.rejects(client.writeBlob("a", descriptor, source), Failure);
    while ((await readdir(join(directory, "tmp"))).length === 0) await sleep(5);

    first.child.kill("SIGKILL");
    await uploading;
    const second = await start(t, args);
    const again = createRegistryClient({ url: second.url });
    t.after(() => again.close());

    assert.equal(digestOf(await collect(again.readBlob("a", digestOf(kept)))), digestOf(kept));
    assert.equal(await again.headBlob("a", descriptor.digest), undefined);
    const left = await readdir(join(directory, "tmp")).catch(() => []);
    assert.deepEqual(left, []);
    await again.writeBlob("a", descriptor, () => pieces(lost, Promise.resolve()));
    assert.equal(await again.headBlob("a", descriptor.digest), lost.length);
  });

  test("an imported layout is there for whoever has a token, by the keys in the file", async (t) => {
    const directory = await temporaryDirectory(t);
    const data = join(directory, "data");
    const keys = generateKeyPairSync("ed25519");
    await writeFile(
      join(directory, "keys.json"),
      JSON.stringify({ keys: [keys.publicKey.export({ format: "jwk" })] }),
    );
    await mkdir(join(directory, "files"));
    await writeFile(join(directory, "files", "runner.mjs"), "// runner");
    const { digest } = await packImage({
      store: createLayoutStore({ directory: join(directory, "layout") }),
      repository: "exclave/runner",
      layers: [{ directory: join(directory, "files"), prefix: "exclave" }],
      tag: "current",
    });

    const layout = ["--import-layout", join(directory, "layout")];
    const name = ["--repository", "exclave/runner", "--tag", "current"];
    const imported = await finish(run(t, ["--directory", data, ...layout, ...name]));

    const other = ["--repository", "exclave/runner", "--digest", digest, "--tag", "seed"];
    const byDigest = await finish(run(t, ["--directory", data, ...layout, ...other]));

    assert.deepEqual(imported, { code: 0, stdout: `${digest}\n`, stderr: "" });
    assert.deepEqual(byDigest, imported);
    const auth = ["--auth-keys", join(directory, "keys.json"), "--issuer", "acme"];
    const { url } = await start(t, ["--directory", data, ...auth, "--service", "acme-registry"]);
    const token = await mintToken({
      privateKey: keys.privateKey,
      issuer: "acme",
      audience: "acme-registry",
      subject: "agent",
      access: [{ type: "repository", name: "exclave/runner", actions: ["pull"] }],
      ttlMs: 60_000,
      now: Date.now(),
      jti: "t",
    });
    const client = createRegistryClient({ url, token });
    t.after(() => client.close());
    assert.equal((await client.readManifest("exclave/runner", "current")).digest, digest);
    assert.deepEqual(await client.tags("exclave/runner"), ["current", "seed"]);
    assert.equal((await fetch(new URL("/v2/", url))).status, 401);
  });

  test("refuses to start unless it is clear who may come in, where it listens and what it imports", async (t) => {
    const directory = await temporaryDirectory(t);
    const wrong = [
      [],
      ["--anonymous", "--auth-keys", "f", "--issuer", "i"],
      ["--auth-keys", "f"],
      ["--anonymous", "--address", "here"],
      ["--anonymus"],
      ["--import-layout", "nowhere"],
      ["--auth-keys", "no-such-file", "--issuer", "i"],
    ];

    const ended = await Promise.all(
      wrong.map((args) => finish(run(t, ["--directory", directory, ...args]))),
    );

    for (const { code, stdout, stderr } of ended) {
      assert.equal(code, 2);
      assert.equal(stdout, "");
      assert.match(stderr, /^error: [^\n]+\n$/);
    }
  });

  test("says that an address is taken, and what it can do", async (t) => {
    const directory = await temporaryDirectory(t);
    const { url } = await start(t, ["--directory", join(directory, "a"), "--anonymous"]);

    const other = ["--directory", join(directory, "b"), "--anonymous"];
    const second = await finish(run(t, [...other, "--address", new URL(url).host]));
    const help = await finish(run(t, ["--help"]));

    assert.equal(second.code, 1);
    assert.match(second.stderr, /^error: cannot listen on 127\.0\.0\.1:\d+/);
    assert.equal(help.code, 0);
    for (const option of ["--directory", "--address", "--anonymous", "--auth-keys", "--collect"]) {
      assert.ok(help.stdout.includes(option));
    }
  });

  // A second one that came up would serve without end.
  const soon = { timeout: 60_000 };
  test(
    "leaves a directory to the registry that serves it, which goes on; all can collect",
    soon,
    async (t) => {
      const directory = await temporaryDirectory(t);
      const args = ["--directory", directory, "--anonymous"];
      const { child, url } = await start(t, args);
      const begun = await fetch(new URL("/v2/a/blobs/uploads/", url), { method: "POST" });
      const upload = new URL(begun.headers.get("location") ?? "", url);
      await fetch(upload, { method: "PATCH", body: "half" });

      const second = await finish(run(t, args));
      const collected = await finish(run(t, ["--directory", directory, "--collect"]));

      const because = `error: another registry serves this directory: ${directory}\n`;
      assert.deepEqual(second, { code: 1, stdout: "", stderr: because });
      assert.equal(collected.code, 0);
      upload.searchParams.set("digest", digestOf("half and half"));
      const done = await fetch(upload, { method: "PUT", body: " and half" });
      assert.equal(done.status, 201);
      child.kill("SIGTERM");
      await once(child, "exit");
      await start(t, args);
    },
  );

  test("says before it listens that there can be no content where it was told to keep it", async (t) => {
    const directory = await temporaryDirectory(t);
    const file = join(directory, "file");
    await writeFile(file, "not a directory");

    for (const place of [file, join(file, "below")]) {
      const ended = await finish(run(t, ["--directory", place, "--anonymous"]));
      const stderr = `error: ${place} is not a directory\n`;
      assert.deepEqual(ended, { code: 2, stdout: "", stderr });
    }
  });

  test("collects what nothing needs, and says how much that was", async (t) => {
    const directory = await temporaryDirectory(t);
    const files = createRegistryFiles(directory);
    const { digest } = await writeBlobBytes(files, "a", "text/plain", Buffer.from("unwanted"));
    const long = new Date(Date.now() - 48 * 3_600_000);
    await utimes(files.blobs.path(digest), long, long);
    await files.unlinkBlob("a", digest);

    const collected = await finish(run(t, ["--directory", directory, "--collect"]));

    assert.deepEqual(collected, { code: 0, stdout: "removed 1 blobs, 8 bytes\n", stderr: "" });
    assert.equal(await files.blobs.size(digest), undefined);
  });
});
