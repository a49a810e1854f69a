import assert from "node:assert/strict";
import { createPrivateKey, generateKeyPairSync } from "node:crypto";
import { mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, type TestContext, test } from "node:test";
import {
  Instant,
  keysOfRole,
  MANIFEST_PAYLOAD_TYPE,
  nextTrust,
  openEnvelope,
  rotateTrust,
  TRUST_VALID_MS,
  type TrustRole,
} from "@exclave/core";
import { verifySignature } from "@exclave/machine";
import { openKeyDirectory } from "../signer/key-directory.ts";
import { openSqliteStore } from "../store/sqlite/sqlite-store.ts";
import { failsWith } from "../testing/describe-signer.ts";
import { temporaryDirectory } from "../testing/temporary-directory.ts";
import { openTrust } from "./trust.ts";

const NOW = 1_800_000_000_000;
const BY = "ada";
const payload = new TextEncoder().encode("{}");

async function world(t: TestContext) {
  const directory = await temporaryDirectory(t);
  const clock = { now: NOW, origin: "http://127.0.0.1:1" };
  const said: string[] = [];
  const open = async ({ database = "a.db" } = {}) => {
    const store = openSqliteStore(join(directory, database));
    const signer = await openKeyDirectory(join(directory, "keys"));
    const trust = await openTrust({
      store,
      signer,
      directory: join(directory, "trust"),
      origin: () => clock.origin,
      now: () => Instant.parse(clock.now),
      log: { warn: (text) => void said.push(text), info: () => undefined },
    });
    return { store, signer, trust, close: () => store.close() };
  };
  return { directory, clock, said, open };
}

type World = Awaited<ReturnType<typeof world>>;
type Opened = Awaited<ReturnType<World["open"]>>;

async function rotate({ trust, signer }: Opened, role: TrustRole, revoke = false) {
  const key = await signer.make(role);
  const { document } = trust.current();
  const next = rotateTrust(document, { role, key, revoke, now: Instant.parse(NOW) });
  return trust.change(next, BY, { role });
}

describe("the trust document of a server", () => {
  test("is made at the first start, signed by a root key of its own, and stays", async (t) => {
    const { open, directory } = await world(t);
    const first = await open();
    const { document, digest } = first.trust.current();
    await first.close();

    const again = await open();

    assert.equal(document.version, 1);
    assert.deepEqual(document.origins, ["http://127.0.0.1:1"]);
    assert.equal(document.expiresAt, NOW + TRUST_VALID_MS);
    assert.equal(again.trust.current().digest, digest);
    assert.deepEqual(await readdir(join(directory, "trust")), ["1.json"]);
    assert.equal((await again.store.read.audit.newest(1))[0]?.action, "trust.published");
    await again.close();
  });

  test("takes over the keys that an older server already used", async (t) => {
    const { open, directory } = await world(t);
    const director = generateKeyPairSync("ed25519").privateKey;
    const release = generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey;
    await mkdir(join(directory, "keys"));
    for (const [name, key] of Object.entries({ director, release })) {
      const pem = key.export({ format: "pem", type: "pkcs8" });
      await writeFile(join(directory, "keys", `${name}.pem`), pem);
    }

    const { trust, signer, close } = await open();

    const { roles } = trust.current().document;
    for (const role of ["director", "release"] as const) {
      const [held, ...more] = (await signer.keys()).filter((key) => key.role === role);
      assert.deepEqual(roles[role].keyids, [held?.keyid]);
      assert.deepEqual(more, []);
    }
    assert.ok(createPrivateKey(director.export({ format: "pem", type: "pkcs8" })));
    await close();
  });

  test("signs with the newest key of a role, and what it signs opens under the document", async (t) => {
    const { open } = await world(t);
    const opened = await open();
    const { trust } = opened;
    const before = await trust.seal("director", MANIFEST_PAYLOAD_TYPE, payload);
    await rotate(opened, "director");

    const after = await trust.seal("director", MANIFEST_PAYLOAD_TYPE, payload);

    const { document } = trust.current();
    assert.equal(after.signatures[0]?.keyid, document.roles.director.keyids[0]);
    assert.notEqual(before.signatures[0]?.keyid, after.signatures[0]?.keyid);
    for (const envelope of [before, after]) {
      const role = keysOfRole(document, "director", Instant.parse(NOW));
      const limits = { payloadType: MANIFEST_PAYLOAD_TYPE, bytesMax: 100 };
      const verify = verifySignature;
      assert.ok(openEnvelope(envelope, { ...role, ...limits, verify }) instanceof Uint8Array);
    }
    await opened.close();
  });

  test("keeps every version, each signed by the root before it", async (t) => {
    const { open, directory } = await world(t);
    const opened = await open();
    for (const role of ["director", "root", "release", "checkpoint"] as const) {
      assert.equal((await rotate(opened, role)).kind, "published", role);
    }
    await opened.close();

    const again = await open();

    const versions = again.trust.after(0);
    assert.deepEqual(
      versions.map(({ document }) => document.version),
      [1, 2, 3, 4, 5],
    );
    for (const [at, { envelope }] of versions.slice(1).entries()) {
      const current = versions[at]?.document;
      assert.ok(current);
      const now = Instant.parse(NOW);
      assert.equal(nextTrust({ current, envelope, now, verify: verifySignature }).kind, "ok");
    }
    assert.equal((await readdir(join(directory, "trust"))).length, 5);
    await again.close();
  });

  test("resumes from its files when the database was restored from before", async (t) => {
    const { open } = await world(t);
    const opened = await open();
    await rotate(opened, "director");
    await opened.close();

    const restored = await open({ database: "b.db" });

    assert.equal(restored.trust.current().document.version, 2);
    assert.equal((await restored.store.read.trust.all()).length, 2);
    await restored.close();
  });

  test("is renewed before it ends, and follows the public address", async (t) => {
    const { open, clock } = await world(t);
    const { trust, close } = await open();
    await trust.keepCurrent();
    assert.equal(trust.current().document.version, 1);

    clock.now += TRUST_VALID_MS - 1_000;
    await trust.keepCurrent();
    clock.origin = "https://vendor.example";
    await trust.keepCurrent();

    const [renewed, moved] = trust.after(1).map(({ document }) => document);
    assert.equal(renewed?.expiresAt, clock.now + TRUST_VALID_MS);
    assert.deepEqual(moved?.origins, ["https://vendor.example"]);
    await close();
  });

  test("says what to do when the root key is offline and a new version is needed", async (t) => {
    const { open, clock, said } = await world(t);
    const { trust, signer, close } = await open();
    await signer.forget("root", trust.current().document.roles.root.keyids[0] ?? "");

    clock.origin = "https://vendor.example";
    await trust.keepCurrent();
    clock.origin = "http://127.0.0.1:1";
    clock.now += TRUST_VALID_MS - 1_000;
    await trust.keepCurrent();

    assert.equal(trust.current().document.version, 1);
    assert.match(
      said[0] ?? "",
      /agents pull from http:\/\/127\.0\.0\.1:1 only.*keys renew --root-key/,
    );
    assert.match(said[1] ?? "", /the trust document ends at .*keys renew --root-key/);
    await close();
  });

  test("takes nothing that the root did not sign, and nothing twice", async (t) => {
    const { open } = await world(t);
    const opened = await open();
    const { trust, signer } = opened;
    const { envelope } = trust.current();

    await failsWith("conflict", trust.publish(envelope, BY));
    const forged = { ...envelope, signatures: [{ keyid: "x", sig: "AAAA" }] };
    await failsWith("signature", trust.publish(forged, BY));
    const [root] = trust.current().document.roles.root.keyids;
    await signer.forget("root", root ?? "");
    assert.equal((await rotate(opened, "director")).kind, "to_sign");

    assert.equal(trust.current().document.version, 1);
    await opened.close();
  });

  test("a server whose signer has lost a role's key says so when it signs", async (t) => {
    const { open, directory } = await world(t);
    const opened = await open();
    for (const file of await readdir(join(directory, "keys"))) {
      if (file.startsWith("director")) await rm(join(directory, "keys", file));
    }
    await opened.close();
    const again = await open();

    const sealed = again.trust.seal("director", MANIFEST_PAYLOAD_TYPE, payload);

    const { message } = await failsWith("unavailable", sealed);
    assert.match(message, /holds 0 of the 1 director keys/);
    await again.close();
  });
});
