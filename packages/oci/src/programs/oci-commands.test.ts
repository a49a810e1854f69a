// Each command as a function, between registries and layouts that are real and small.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { cp, mkdir, readdir, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { describe, type TestContext, test } from "node:test";
import { Failure } from "@exclave/core";
import { createRegistryClient } from "../client/registry-client.ts";
import type { Descriptor } from "../content/descriptor.ts";
import { TITLE, UNPACK } from "../pack/file-annotations.ts";
import { createRegistry } from "../registry/registry.ts";
import { serveRegistry } from "../registry/serve-registry.ts";
import { temporaryDirectory } from "../testing/temporary-directory.ts";
import { bundle, copy, inspect, pull, push } from "./oci-commands.ts";

const access = { plainHttp: false, signal: AbortSignal.timeout(60_000) };
const alone = { referrers: false };
const made = { artifactType: "application/test" };

async function world(t: TestContext) {
  const directory = await temporaryDirectory(t);
  const registry = await serveRegistry({
    directory: join(directory, "registry"),
    host: "127.0.0.1",
    port: 0,
    auth: { kind: "anonymous" },
  });
  const client = createRegistryClient({ url: registry.url });
  t.after(async () => {
    client.close();
    await registry.close();
  });
  await mkdir(join(directory, "files"));
  await writeFile(join(directory, "files", "hello"), "hello");
  const host = registry.url.replace("http://", "");
  return { directory, host, client, files: join(directory, "files") };
}

describe("a target", () => {
  test("without a tag is called latest", async (t) => {
    const { host, client, files } = await world(t);

    const { digest } = await push(`${host}/a`, [files], access, made);
    await copy(`${host}/a`, `${host}/b`, access, alone);

    assert.equal((await client.readManifest("a", "latest")).digest, digest);
    assert.equal((await client.readManifest("b", "latest")).digest, digest);
  });

  test("with a digest takes that and nothing else, and no tag unless one is named", async (t) => {
    const { directory, host, client, files } = await world(t);
    const { digest } = await push(`${host}/a:v1`, [files], access, made);
    const other = `sha256:${"0".repeat(64)}`;
    const layout = join(directory, "layout");

    for (const to of [`${host}/b@${other}`, `${host}/b:v1@${other}`, `oci:${layout}@${other}`]) {
      await assert.rejects(copy(`${host}/a:v1`, to, access, alone), isInvalid);
    }
    assert.deepEqual(await client.tags("b"), []);
    await copy(`${host}/a:v1`, `${host}/b@${digest}`, access, alone);
    assert.deepEqual(await client.tags("b"), []);
    await copy(`${host}/a:v1`, `${host}/b:v2@${digest}`, access, alone);
    assert.deepEqual(await client.tags("b"), ["v2"]);
    await assert.rejects(push(`${host}/b@${digest}`, [files], access, made), isInvalid);
  });

  test("that is a bundle is a path, whatever is in it", async (t) => {
    const { directory, host, files } = await world(t);
    await push(`${host}/a:v1`, [files], access, made);

    await bundle(join(directory, "crm:1@x.tar"), [`${host}/a:v1`], access, alone);

    assert.deepEqual(
      (await readdir(directory)).filter((name) => name.startsWith("crm")),
      ["crm:1@x.tar"],
    );
  });
});

describe("a push", () => {
  test("of a directory says that it is one, and is the same whatever the directory is called", async (t) => {
    const { directory, host, files } = await world(t);
    await cp(files, join(directory, "others"), { recursive: true });

    const first = await push(`${host}/a:v1`, [files], access, made);
    const second = await push(`${host}/b:v1`, [join(directory, "others")], access, made);
    await pull(`${host}/a:v1`, join(directory, "out"), access);

    assert.equal(first.digest, second.digest);
    const { layers } = (await inspect(`${host}/a:v1`, access)) as { layers: Descriptor[] };
    assert.equal(layers[0]?.annotations?.[TITLE], ".");
    assert.equal(layers[0]?.annotations?.[UNPACK], "true");
    assert.deepEqual(await readdir(join(directory, "out")), ["hello"]);
  });

  test("of two files with one name is refused before anything is sent", async (t) => {
    const { directory, host, client, files } = await world(t);
    await writeFile(join(directory, "hello"), "another hello");
    const paths = [join(files, "hello"), join(directory, "hello")];

    await assert.rejects(push(`${host}/a:v1`, paths, access, made), /two of these .* called hello/);

    assert.deepEqual(await client.tags("a"), []);
  });

  test("of a directory stops when it is asked to", async (t) => {
    const { host, client, files } = await world(t);
    await writeFile(join(files, "large"), randomBytes(64 * 1024 * 1024));
    const stop = new AbortController();
    const stopping = { ...access, signal: stop.signal };

    const pushing = push(`${host}/a:v1`, [files], stopping, made);
    setTimeout(() => stop.abort(new Failure("cancelled", "stopped")), 50);

    await assert.rejects(pushing, /stopped/);
    assert.deepEqual(await client.tags("a"), []);
  });
});

describe("a copy within one registry", () => {
  test("moves no bytes, even where a mount has to say from where", async (t) => {
    const { directory, files } = await world(t);
    const host = await serveWithNamedMounts(t, join(directory, "other"));
    await push(`${host}/a:v1`, [files], access, made);

    const { copiedBytes, mountedBytes } = await copy(`${host}/a:v1`, `${host}/b:v1`, access, alone);

    assert.equal(copiedBytes, 0);
    assert.ok(mountedBytes > 0);
  });
});

describe("a copy of what is there already", () => {
  test("asks each side once, and the source once more where referrers are wanted", async (t) => {
    const { host, files } = await world(t);
    await push(`${host}/a:v1`, [files], access, made);
    await copy(`${host}/a:v1`, `${host}/b:v1`, access, alone);

    const again = (referrers: boolean) =>
      copy(`${host}/a:v1`, `${host}/b:v1`, access, { referrers });

    assert.equal((await again(false)).requests, 2);
    assert.equal((await again(true)).requests, 3);
  });
});

/** As docker's registry has it: without `from`, asking for a mount opens an upload. */
async function serveWithNamedMounts(t: TestContext, directory: string): Promise<string> {
  const registry = createRegistry({ directory, auth: { kind: "anonymous" } });
  const server = createServer((request, response) => {
    const isUnnamed = request.url?.includes("?mount=") && !request.url.includes("from=");
    if (isUnnamed) request.url = request.url?.split("?")[0];
    void registry.handle(request, response);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(async () => {
    server.closeAllConnections();
    server.close();
    await registry.close();
  });
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function isInvalid(reason: unknown): boolean {
  return reason instanceof Failure && reason.code === "invalid";
}
