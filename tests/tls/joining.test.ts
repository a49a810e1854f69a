// What a join string pins is checked before its secret is said.

import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { describe, test } from "node:test";
import { createJoin, decodeJoinString } from "@exclave/api";
import { Failure, type FailureCode } from "@exclave/core";
import { findServerCa } from "@exclave/machine";
import { makeCertificate } from "@exclave/server/simulation";
import { impostor, joinStringOf, joinWith, tlsServer, tunnel } from "./tls-world.ts";

async function failsWith(code: FailureCode, work: Promise<unknown>): Promise<string> {
  const reason = await work.then(
    () => assert.fail("it went through"),
    (cause: unknown) => cause,
  );
  assert.ok(reason instanceof Failure, String(reason));
  assert.equal(reason.code, code, reason.message);
  return reason.message;
}

function strangersCertificate() {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const certificate = makeCertificate(
    {
      about: { kind: "server", hosts: ["127.0.0.1"] },
      name: "stranger",
      key: publicKey,
      notBefore: Date.now() - 60_000,
      notAfter: Date.now() + 60_000,
      serial: Buffer.from([9]),
    },
    { privateKey },
  );
  const key = privateKey.export({ type: "pkcs8", format: "pem" }).toString();
  return { cert: certificate.toString(), key };
}

test("whoever answers the dial and then says nothing is given up on", async (t) => {
  const silent = createServer();
  silent.listen({ host: "127.0.0.1", port: 0 });
  await once(silent, "listening");
  const held = new Set<Socket>();
  silent.on("connection", (socket) => held.add(socket.on("error", () => undefined)));
  t.after(() => {
    for (const socket of held) socket.destroy();
    silent.close();
  });
  const { port } = silent.address() as AddressInfo;

  const looking = findServerCa(`https://127.0.0.1:${port}`, "sha256:none", { withinMs: 100 });

  assert.match(await failsWith("unavailable", looking), /cannot reach the server/);
});

describe("joining over TLS", () => {
  test("pins the authority that the string names, and keeps its certificate", async (t) => {
    const server = await tlsServer(t);
    const text = await joinStringOf(server);

    const { identity } = await joinWith(text);

    assert.equal(decodeJoinString(text)?.caFingerprint, server.caFingerprint);
    assert.equal(identity.serverCa, await readFile(join(server.data, "keys/ca.crt"), "utf8"));
    assert.match(identity.serverUrl, /^https:/);
  });

  test("a server of another authority hears no secret", async (t) => {
    const [server, other] = [await tlsServer(t), await tlsServer(t)];
    const text = await joinStringOf(server, { caFingerprint: other.caFingerprint });

    const message = await failsWith("unauthenticated", joinWith(text));

    assert.match(message, /is not the one that was named: .* of the authority sha256:/);
    await joinWith(await joinStringOf(server));
  });

  test("nor does one that shows the right authority's certificate beside its own", async (t) => {
    const server = await tlsServer(t);
    const stranger = strangersCertificate();
    const ca = await readFile(join(server.data, "keys/ca.crt"), "utf8");
    const chain = `${stranger.cert}${ca}`;
    const { url, heard } = await impostor(t, { ...stranger, cert: chain });
    const text = await joinStringOf(server, { url });

    const message = await failsWith("unauthenticated", joinWith(text));

    assert.match(message, /is not (taken for )?the one that was named/);
    assert.ok(!heard.join("\n").includes(decodeJoinString(text)?.secret ?? "?"), heard.join("\n"));
    assert.ok(
      heard.every((line) => line.startsWith("HEAD ")),
      heard.join("\n"),
    );
  });

  test("without a pin the machine's roots count, and they do not know this server", async (t) => {
    const server = await tlsServer(t);
    const text = await joinStringOf(server, { caFingerprint: undefined });

    const message = await failsWith("unauthenticated", joinWith(text));

    assert.match(message, /certificate is not by an authority that is trusted here/);
  });

  test("a secret is for one agent: another kind, another audience and a second use are refused", async (t) => {
    const server = await tlsServer(t);
    const { joinString } = await server.client.call(createJoin, { body: { kind: "setup" } });
    const setup = decodeJoinString(joinString);
    const elsewhere = await joinStringOf(server, { secret: setup?.secret ?? "" });

    const wrong = await failsWith("wrong_install", joinWith(elsewhere));
    const text = await joinStringOf(server);
    await joinWith(text);
    const used = await failsWith("unauthenticated", joinWith(text));

    assert.match(wrong, /the server made this the setup agent/);
    assert.match(used, /this join string was used before; ask for a new one/);
  });

  test("a secret that is older than fifteen minutes is refused", async (t) => {
    let now = Date.now();
    const server = await tlsServer(t, { now: () => now });
    const text = await joinStringOf(server);
    now += 15 * 60_000;

    const message = await failsWith("unauthenticated", joinWith(text, undefined, now));

    assert.match(message, /this join string has expired; ask for a new one/);
  });

  test("goes through the proxy that the machine's network wants", async (t) => {
    const server = await tlsServer(t, { publicUrl: "https://exclave.test" });
    const { proxy, asked } = await tunnel(t, server.server.listening);
    const text = await joinStringOf(server);

    const { identity } = await joinWith(text, proxy);

    assert.equal(identity.serverUrl, "https://exclave.test");
    assert.deepEqual([...new Set(asked)], ["exclave.test:443"]);
  });
});
