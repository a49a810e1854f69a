// A client that is not ours reads what we write, and the other way round.

import assert from "node:assert/strict";
import { execFile, spawnSync } from "node:child_process";
import { generateKeyPairSync } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, type TestContext, test } from "node:test";
import { promisify } from "node:util";
import { createRegistryClient } from "../client/registry-client.ts";
import { createLayoutStore } from "../content/layout-store.ts";
import { mintToken } from "../credentials/token.ts";
import { unpackImage } from "../layer/unpack.ts";
import { packImage } from "../pack/pack.ts";
import type { RegistryAuth } from "../registry/authorize.ts";
import { serveRegistry } from "../registry/serve-registry.ts";
import { temporaryDirectory } from "../testing/temporary-directory.ts";
import { copy, inspect } from "./oci-commands.ts";

const run = promisify(execFile);
const isAbsent = spawnSync("skopeo", ["--version"]).status !== 0;
const skip = isAbsent ? "skopeo is not installed" : false;

async function skopeo(...args: string[]): Promise<string> {
  return (await run("skopeo", ["--insecure-policy", ...args])).stdout;
}

async function world(t: TestContext, auth: RegistryAuth = { kind: "anonymous" }) {
  const directory = await temporaryDirectory(t);
  const registry = await serveRegistry({
    directory: join(directory, "registry"),
    host: "127.0.0.1",
    port: 0,
    auth,
  });
  t.after(() => registry.close());
  await mkdir(join(directory, "files"));
  await writeFile(join(directory, "files", "hello"), "hello from an image");
  return { directory, registry, host: registry.url.replace("http://", "") };
}

describe("skopeo", { skip }, () => {
  test("takes an image from our registry and brings it back under another name", async (t) => {
    const { directory, registry, host } = await world(t);
    const client = createRegistryClient({ url: registry.url });
    t.after(() => client.close());
    const { digest } = await packImage({
      store: client,
      repository: "apps/crm/api",
      layers: [{ directory: join(directory, "files") }],
      config: { entrypoint: ["/hello"] },
      tag: "v1",
    });

    const layout = `oci:${join(directory, "layout")}:v1`;
    await skopeo("copy", "--src-tls-verify=false", `docker://${host}/apps/crm/api:v1`, layout);
    await skopeo("copy", "--dest-tls-verify=false", layout, `docker://${host}/other/name:v2`);
    const seen = await skopeo("inspect", "--tls-verify=false", `docker://${host}/other/name:v2`);

    assert.equal(JSON.parse(seen).Digest, digest);
    assert.equal((await client.readManifest("other/name", "v2")).digest, digest);
    const root = join(directory, "root");
    await unpackImage(client, "other/name", digest, root);
    assert.equal(await readFile(join(root, "hello"), "utf8"), "hello from an image");
  });

  test("reads our layouts, and we read its layouts", async (t) => {
    const { directory } = await world(t);
    const ours = join(directory, "ours");
    const theirs = join(directory, "theirs");
    const { digest } = await packImage({
      store: createLayoutStore({ directory: ours }),
      repository: "apps/crm/api",
      layers: [{ directory: join(directory, "files") }],
      tag: "v1",
    });

    await skopeo("copy", `oci:${ours}:apps/crm/api:v1`, `oci:${theirs}:latest`);

    const store = createLayoutStore({ directory: theirs });
    assert.equal((await store.readManifest("any/name", "latest")).digest, digest);
  });

  test("finds what a copy wrote under the name a person gave, also in a layout of its own", async (t) => {
    const { directory, registry, host } = await world(t);
    const client = createRegistryClient({ url: registry.url });
    t.after(() => client.close());
    const image = { store: client, repository: "src/app" };
    const layers = [{ directory: join(directory, "files") }];
    const first = await packImage({ ...image, layers, tag: "v1" });
    const second = await packImage({ ...image, layers, config: { user: "1" }, tag: "v2" });
    const access = { plainHttp: false, signal: AbortSignal.timeout(60_000) };
    const layout = `oci:${join(directory, "layout")}:v1`;
    const digestOf = async () => JSON.parse(await skopeo("inspect", layout)).Digest;

    await skopeo("copy", "--src-tls-verify=false", `docker://${host}/src/app:v1`, layout);
    assert.equal(await digestOf(), first.digest);
    await copy(`${host}/src/app:v2`, layout, access, { referrers: true });

    assert.equal(await digestOf(), second.digest);
    assert.equal((await inspect(layout, access)).repository, "src/app");
  });

  test("gets in with a token of ours, and not with one for something else", async (t) => {
    const keys = generateKeyPairSync("ed25519");
    const { directory, host } = await world(t, {
      kind: "token",
      realm: "http://127.0.0.1:1/token",
      service: "registry",
      issuer: "exclave",
      publicKeys: [keys.publicKey],
    });
    const tokenFor = (name: string) =>
      mintToken({
        privateKey: keys.privateKey,
        issuer: "exclave",
        audience: "registry",
        subject: "build",
        access: [{ type: "repository", name, actions: ["pull", "push"] }],
        ttlMs: 60_000,
        now: Date.now(),
        jti: "t",
      });
    const layout = join(directory, "layout");
    await packImage({
      store: createLayoutStore({ directory: layout }),
      repository: "a",
      layers: [{ directory: join(directory, "files") }],
      tag: "v1",
    });
    const push = async (token: string) =>
      skopeo(
        "copy",
        "--dest-tls-verify=false",
        `--dest-registry-token=${token}`,
        `oci:${layout}:a:v1`,
        `docker://${host}/apps/crm:v1`,
      );

    await push(await tokenFor("apps/crm"));
    await assert.rejects(push(await tokenFor("apps/other")));
  });
});
