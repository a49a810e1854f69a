// What the server's listener speaks, and that its certificate is replaced while it listens.

import assert from "node:assert/strict";
import { once } from "node:events";
import { copyFile, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, type TestContext, test } from "node:test";
import { connect, type TLSSocket } from "node:tls";
import { getInfo } from "@exclave/api";
import { createServerFetch, findServerCa } from "@exclave/machine";
import { openAuthority, testServer } from "@exclave/server/simulation";
import { tlsServer } from "./tls-world.ts";

const DAY_MS = 86_400_000;

async function dial(t: TestContext, url: string, options: object = {}): Promise<TLSSocket> {
  const { hostname, port } = new URL(url);
  const socket = connect({ host: hostname, port: Number(port), ...options });
  t.after(() => socket.destroy());
  await once(socket, "secureConnect");
  return socket;
}

async function serialOf(t: TestContext, url: string): Promise<string | undefined> {
  const socket = await dial(t, url, { rejectUnauthorized: false });
  return socket.getPeerX509Certificate()?.serialNumber;
}

/** Somebody else's authority, and files with a certificate of it. */
async function brought(t: TestContext) {
  const keys = join((await tlsServer(t)).data, "keys");
  const authority = await openAuthority({ keys, now: Date.now });
  const files = { certificateFile: join(keys, "b.crt"), keyFile: join(keys, "b.pem") };
  const write = async () => {
    const { certificate, privateKey } = authority.issueServer(["127.0.0.1"]);
    await writeFile(files.certificateFile, certificate.toString());
    await writeFile(files.keyFile, privateKey.export({ type: "pkcs8", format: "pem" }));
    return certificate.serialNumber;
  };
  return { files, write, caFile: join(keys, "ca.crt"), fingerprint: authority.fingerprint };
}

describe("the listener", () => {
  test("speaks TLS 1.3 and nothing older, also after it got another certificate", async (t) => {
    let now = Date.now();
    const { server, url } = await tlsServer(t, { now: () => now });
    const before = await serialOf(t, url);
    const isOld = { maxVersion: "TLSv1.2", rejectUnauthorized: false };
    await assert.rejects(dial(t, url, isOld), /protocol version/);

    now += 61 * DAY_MS;
    await server.lookAtCertificate();

    assert.notEqual(await serialOf(t, url), before, "a third of its life before its end");
    await assert.rejects(dial(t, url, isOld), /protocol version/);
  });

  test("keeps a certificate that has long to live, and connections that are up", async (t) => {
    let now = Date.now();
    const { server, url } = await tlsServer(t, { now: () => now });
    const before = await serialOf(t, url);
    const open = await dial(t, url, { rejectUnauthorized: false });
    now += 30 * DAY_MS;
    await server.lookAtCertificate();
    assert.equal(await serialOf(t, url), before);
    now += 31 * DAY_MS;
    await server.lookAtCertificate();

    open.write("GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n");
    const [answer] = (await once(open, "data")) as [Buffer];

    assert.match(answer.toString(), /^HTTP\/1\.1 200/);
  });

  test("a certificate that was brought is read again when its files change", async (t) => {
    const { files, write, caFile, fingerprint } = await brought(t);
    const first = await write();
    const { server, url } = await testServer(t, { tls: { ...files, caFile } });
    assert.equal(await serialOf(t, url), first);
    assert.equal(server.context.caFingerprint(), fingerprint, "that is what agents pin");

    const second = await write();
    await server.lookAtCertificate();

    assert.equal(await serialOf(t, url), second);
    assert.equal(await findServerCa(url, fingerprint), await readFile(caFile, "utf8"));
  });

  test("files that are only half there change nothing until they are whole", async (t) => {
    const { files, write, caFile } = await brought(t);
    const first = await write();
    const { server, url } = await testServer(t, { tls: { ...files, caFile } });
    const old = join(files.keyFile, "..", "old.pem");
    await copyFile(files.keyFile, old);

    const second = await write();
    const key = await readFile(files.keyFile, "utf8");
    await copyFile(old, files.keyFile);
    await server.lookAtCertificate();
    const between = await serialOf(t, url);
    await writeFile(files.keyFile, key);
    await server.lookAtCertificate();

    assert.deepEqual([between, await serialOf(t, url)], [first, second]);
  });

  test("a server whose certificate and key do not belong together does not start", async (t) => {
    const { files, write, caFile } = await brought(t);
    await write();
    const tls = { ...files, certificateFile: caFile };

    await assert.rejects(testServer(t, { tls }), /b\.pem is not the key of .*ca\.crt/);
  });
});

describe("a client that pins the server's authority", () => {
  test("is answered, and sends a body that is made while it is sent", async (t) => {
    const { client, url, data, token } = await tlsServer(t);
    const ca = await readFile(join(data, "keys/ca.crt"), "utf8");
    const ask = createServerFetch({ ca });
    async function* body() {
      for (const part of ['{"name":"ci",', '"role":"viewer"}']) yield Buffer.from(part);
    }

    const { name } = await client.call(getInfo);
    const made = await ask(`${url}/v1/tokens`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: body(),
    });

    assert.equal(name, "exclave");
    assert.equal(made.status, 201);
    assert.equal(((await made.json()) as { name: string }).name, "ci");
  });

  test("lets go of an answer that it no longer wants", async (t) => {
    const { url, data, token } = await tlsServer(t);
    const ca = await readFile(join(data, "keys/ca.crt"), "utf8");
    const stop = new AbortController();
    const headers = { authorization: `Bearer ${token}` };
    const { signal } = stop;

    const events = await createServerFetch({ ca })(`${url}/v1/events`, { headers, signal });
    assert.equal(events.status, 200);
    const reading = events.text();
    stop.abort();

    await assert.rejects(reading, /abort/);
  });
});
