import assert from "node:assert/strict";
import { generateKeyPairSync, sign } from "node:crypto";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import {
  exportRootKey,
  forgetRootKey,
  getKeys,
  publishTrust,
  renewTrust,
  rotateKey,
} from "@exclave/api";
import { TRUST_ROLES } from "@exclave/core";
import { failsWith } from "../testing/describe-signer.ts";
import { signedBy, takeRoot } from "../testing/offline-root.ts";
import { connectAgent, joinVendorAgent, newMemory } from "../testing/scripted-agent.ts";
import { assertOnRecord, type TestServer, testServer } from "../testing/test-server.ts";

const rotate = ({ client }: TestServer, role: (typeof TRUST_ROLES)[number], body = {}) =>
  client.call(rotateKey, { params: { role }, body });

describe("replacing keys", () => {
  test("each role's key is replaced, its private half forgotten, and all of it on record", async (t) => {
    const server = await testServer(t);
    const first = await server.client.call(getKeys);

    for (const role of TRUST_ROLES) {
      assert.equal(
        (await rotate(server, role, { revoke: role === "checkpoint" })).kind,
        "published",
      );
    }

    const view = await server.client.call(getKeys);
    assert.equal(view.version, 5);
    for (const { role, keys } of view.roles) {
      const before = first.roles.find((one) => one.role === role)?.keys[0]?.keyid;
      assert.notEqual(keys[0]?.keyid, before);
      assert.equal(keys[0]?.held, true);
      const old = keys.find(({ keyid }) => keyid === before);
      assert.equal(old !== undefined, role === "director" || role === "release", role);
      assert.equal(old?.held ?? false, false);
      if (role === "director") assert.ok(Date.parse(old?.until ?? "") > Date.now());
    }
    assert.equal((await readdir(join(server.data, "keys"))).length, TRUST_ROLES.length + 1);
    await assertOnRecord(server, ...Array<string>(5).fill("trust.published"));
  });

  test("which agents have which version is shown, and who is behind", async (t) => {
    const server = await testServer(t);
    const [build, setup] = [
      await joinVendorAgent(server, "build"),
      await joinVendorAgent(server, "setup"),
    ];
    const agent = await connectAgent(build, {}, { ...newMemory(), trustVersion: 1 });
    await connectAgent(setup, {}, { ...newMemory(), trustVersion: 1 });
    await rotate(server, "director");
    await agent.say({ type: "trust_changed", at: 1, version: 2, digest: "sha256:x" });

    const { agents, behind } = await server.client.call(getKeys);

    assert.deepEqual(agents, [
      { version: 2, agents: 1 },
      { version: 1, agents: 1 },
    ]);
    assert.deepEqual(
      behind.map(({ audience, version, isOnline }) => [audience, version, isOnline]),
      [["setup", 1, true]],
    );
  });
});

describe("a root key that is offline", () => {
  test("is gone from the server once its holder has shown to have it", async (t) => {
    const server = await testServer(t);
    const { keyid, pem } = await server.client.call(exportRootKey, { body: {} });
    const other = generateKeyPairSync("ed25519").privateKey;
    const signature = sign(null, Buffer.from("x"), other).toString("base64");

    await failsWith("signature", server.client.call(forgetRootKey, { body: { keyid, signature } }));
    const rootIsHeld = async () =>
      (await server.client.call(getKeys)).roles.find(({ role }) => role === "root")?.keys[0]?.held;
    assert.equal(await rootIsHeld(), true);
    const taken = await takeRoot(server);

    assert.equal(taken, pem);
    assert.equal(await rootIsHeld(), false);
    const files = await readdir(join(server.data, "keys"));
    assert.ok(!files.some((file) => file.startsWith("root")), files.join());
    await failsWith("not_found", server.client.call(exportRootKey, { body: {} }));
    await assertOnRecord(server, "root.exported", "root.exported", "root.forgotten");
  });

  test("signs each next version elsewhere; the server publishes what it signed and nothing else", async (t) => {
    const server = await testServer(t);
    const root = await takeRoot(server);

    for (const role of ["director", "release", "checkpoint"] as const) {
      const draft = await rotate(server, role);
      assert.equal(draft.kind, "to_sign");
      const forged = signedBy(
        draft,
        generateKeyPairSync("ed25519")
          .privateKey.export({ format: "pem", type: "pkcs8" })
          .toString(),
      );
      await failsWith("signature", server.client.call(publishTrust, { body: forged }));
      await server.client.call(publishTrust, { body: signedBy(draft, root) });
    }
    const renewed = await server.client.call(renewTrust, { body: {} });
    await server.client.call(publishTrust, { body: signedBy(renewed, root) });

    const { version } = await server.client.call(getKeys);
    assert.equal(version, 5);
    // Asked for twice and signed once: the key made for the first is used for the second.
    await rotate(server, "director");
    await rotate(server, "director");
    const held = await server.server.context.trust.signer.keys();
    assert.equal(held.filter(({ role }) => role === "director").length, 2);
  });

  test("is replaced by one that was never on the server", async (t) => {
    const server = await testServer(t);
    const root = await takeRoot(server);
    const made = generateKeyPairSync("ed25519");
    const pem = made.privateKey.export({ format: "pem", type: "pkcs8" }).toString();
    const newRoot = made.publicKey.export({ format: "der", type: "spki" }).toString("base64");

    const draft = await rotate(server, "root", { newRoot });
    await failsWith("signature", server.client.call(publishTrust, { body: signedBy(draft, pem) }));
    await failsWith("signature", server.client.call(publishTrust, { body: signedBy(draft, root) }));
    await server.client.call(publishTrust, { body: signedBy(draft, root, pem) });

    const after = await rotate(server, "director");
    await failsWith("signature", server.client.call(publishTrust, { body: signedBy(after, root) }));
    await server.client.call(publishTrust, { body: signedBy(after, pem) });
    assert.equal((await server.client.call(getKeys)).version, 3);
    await failsWith("invalid", rotate(server, "director", { newRoot }));
  });
});
