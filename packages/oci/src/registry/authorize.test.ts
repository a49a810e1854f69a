import assert from "node:assert/strict";
import { generateKeyPairSync, randomBytes } from "node:crypto";
import { describe, type TestContext, test } from "node:test";
import { type Digest, Failure } from "@exclave/core";
import { createRegistryClient } from "../client/registry-client.ts";
import { type ContentStore, writeBlobBytes } from "../content/content-store.ts";
import { MEDIA_TYPES } from "../content/descriptor.ts";
import { collect, digestOf } from "../content/digest.ts";
import { type Action, mintToken } from "../credentials/token.ts";
import { temporaryDirectory } from "../testing/temporary-directory.ts";
import { serveRegistry } from "./serve-registry.ts";

const KEYS = generateKeyPairSync("ed25519");

interface Grant {
  readonly access: Record<string, readonly Action[]>;
  readonly digests?: readonly Digest[];
  readonly ttlMs?: number;
}

async function guarded(t: TestContext) {
  const running = await serveRegistry({
    directory: await temporaryDirectory(t),
    host: "127.0.0.1",
    port: 0,
    auth: {
      kind: "token",
      realm: "https://exclave.example/token",
      service: "acme-registry",
      issuer: "exclave",
      publicKeys: [KEYS.publicKey],
    },
  });
  t.after(() => running.close());

  const tokenFor = ({ access, digests, ttlMs = 60_000 }: Grant) =>
    mintToken({
      privateKey: KEYS.privateKey,
      issuer: "exclave",
      audience: "acme-registry",
      subject: "test",
      access: Object.entries(access).map(([name, actions]) => ({
        type: "repository",
        name,
        actions,
      })),
      digests,
      ttlMs,
      now: Date.now(),
      jti: "t",
    });
  async function as(grant: Grant): Promise<ContentStore> {
    const client = createRegistryClient({ url: running.url, token: await tokenFor(grant) });
    t.after(() => client.close());
    return client;
  }
  return { url: running.url, as, tokenFor };
}

/** An index with one image; a second image beside it. */
async function fill(store: ContentStore, repository: string) {
  const released = await image(store, repository);
  const secret = await image(store, repository);
  const entry = { mediaType: MEDIA_TYPES.manifest, digest: released.digest, size: 1 };
  const index = { schemaVersion: 2, mediaType: MEDIA_TYPES.index, manifests: [entry] };
  const bytes = Buffer.from(JSON.stringify(index));
  const top = await store.writeManifest(repository, bytes, MEDIA_TYPES.index, "v1");
  return { top, released, secret };
}

async function image(store: ContentStore, repository: string, fields: object = {}) {
  const config = await writeBlobBytes(store, repository, MEDIA_TYPES.empty, Buffer.from("{}"));
  const layer = await writeBlobBytes(store, repository, MEDIA_TYPES.layerTar, randomBytes(64));
  const document = { schemaVersion: 2, config, layers: [layer], ...fields };
  const bytes = Buffer.from(JSON.stringify(document));
  return { digest: await store.writeManifest(repository, bytes, MEDIA_TYPES.manifest), layer };
}

function failsWith(code: string) {
  return (reason: unknown) => reason instanceof Failure && reason.code === code;
}

describe("a registry with token authentication", () => {
  test("says what a caller without a token should ask for", async (t) => {
    const { url } = await guarded(t);

    const base = await fetch(new URL("/v2/", url));
    const push = await fetch(new URL("/v2/a/b/blobs/uploads/", url), { method: "POST" });

    assert.equal(base.status, 401);
    assert.equal(
      base.headers.get("www-authenticate"),
      'Bearer realm="https://exclave.example/token",service="acme-registry"',
    );
    assert.equal(push.status, 401);
    assert.match(push.headers.get("www-authenticate") ?? "", /scope="repository:a\/b:pull,push"/);
  });

  test("lets a token do what it names, where it names it, and nothing else", async (t) => {
    const { as } = await guarded(t);
    const builder = await as({ access: { a: ["pull", "push"] } });
    const { top, released } = await fill(builder, "a");
    const reader = await as({ access: { a: ["pull"] } });

    assert.equal((await reader.readManifest("a", "v1")).digest, top);
    assert.equal((await collect(reader.readBlob("a", released.layer.digest))).length, 64);
    const blob = Buffer.from("x");
    await assert.rejects(writeBlobBytes(reader, "a", "text/plain", blob), failsWith("forbidden"));
    await assert.rejects(writeBlobBytes(builder, "b", "text/plain", blob), failsWith("forbidden"));
    await assert.rejects(reader.readManifest("b", "v1"), failsWith("forbidden"));
    const { bytes, mediaType } = await reader.readManifest("a", top);
    await assert.rejects(
      reader.writeManifest("a", bytes, mediaType, "stolen"),
      failsWith("forbidden"),
    );
    assert.deepEqual(await builder.tags("a"), ["v1"]);
  });

  test("deletes only for a token that says delete", async (t) => {
    const { as, url, tokenFor } = await guarded(t);
    const { top } = await fill(await as({ access: { a: ["pull", "push"] } }), "a");
    const remove = async (actions: Action[]) => {
      const authorization = `Bearer ${await tokenFor({ access: { a: actions } })}`;
      const path = new URL(`/v2/a/manifests/${top}`, url);
      return (await fetch(path, { method: "DELETE", headers: { authorization } })).status;
    };

    assert.equal(await remove(["pull", "push"]), 401);
    assert.equal(await remove(["delete"]), 202);
  });

  test("refuses a token that is over", async (t) => {
    const { as } = await guarded(t);
    const late = await as({ access: { a: ["pull"] }, ttlMs: -5_000 });

    await assert.rejects(late.readManifest("a", "v1"), failsWith("unauthenticated"));
  });

  test("a token for digests opens these and what they hold, and nothing by tag", async (t) => {
    const { as } = await guarded(t);
    const builder = await as({ access: { a: ["pull", "push"] } });
    const { top, released, secret } = await fill(builder, "a");
    const subject = { mediaType: MEDIA_TYPES.manifest, digest: released.digest, size: 1 };
    const signature = await image(builder, "a", { subject });

    const install = await as({ access: { a: ["pull"] }, digests: [top] });

    assert.equal((await install.readManifest("a", top)).digest, top);
    assert.equal((await install.readManifest("a", released.digest)).digest, released.digest);
    assert.equal((await collect(install.readBlob("a", released.layer.digest))).length, 64);
    const [referrer] = await install.referrers("a", released.digest);
    assert.equal(referrer?.digest, signature.digest);
    assert.equal((await collect(install.readBlob("a", signature.layer.digest))).length, 64);

    const denied = failsWith("forbidden");
    await assert.rejects(install.readManifest("a", "v1"), denied);
    await assert.rejects(install.tags("a"), denied);
    await assert.rejects(install.readManifest("a", secret.digest), denied);
    await assert.rejects(install.headManifest("a", secret.digest), denied);
    await assert.rejects(collect(install.readBlob("a", secret.layer.digest)), denied);
    await assert.rejects(install.referrers("a", secret.digest), denied);
    await assert.rejects(install.readManifest("a", digestOf("unknown")), denied);
  });

  test("mounts only from where the caller may read", async (t) => {
    const { as } = await guarded(t);
    const owner = await as({ access: { private: ["pull", "push"] } });
    const { digest } = await writeBlobBytes(owner, "private", "text/plain", Buffer.from("secret"));

    const other = await as({ access: { mine: ["pull", "push"] } });
    const both = await as({ access: { mine: ["pull", "push"], private: ["pull"] } });

    assert.equal(await other.mountBlob("private", "mine", digest), false);
    assert.equal(await other.headBlob("mine", digest), undefined);
    assert.equal(await both.mountBlob("private", "mine", digest), true);
  });

  test("an anonymous mount looks only where the caller may read", async (t) => {
    const { as, url, tokenFor } = await guarded(t);
    const owner = await as({ access: { private: ["pull", "push"] } });
    const { digest } = await writeBlobBytes(owner, "private", "text/plain", Buffer.from("secret"));
    const mount = async (access: Grant["access"]) => {
      const authorization = `Bearer ${await tokenFor({ access })}`;
      const path = new URL(`/v2/mine/blobs/uploads/?mount=${digest}`, url);
      return (await fetch(path, { method: "POST", headers: { authorization } })).status;
    };

    assert.equal(await mount({ mine: ["pull", "push"] }), 202);
    assert.equal(await mount({ mine: ["pull", "push"], private: ["pull"] }), 201);
  });
});
